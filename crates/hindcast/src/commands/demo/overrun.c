#include <stdio.h>
#include <stdlib.h>

struct account {
    long balances[7];
    const char *currency;
};

static void settle(struct account *account, long income)
{
    long balance = 0;
    for (int day = 0; day <= 7; day++) {
        balance += income;
        account->balances[day] = balance;
    }
}

static long average(const struct account *account)
{
    long sum = 0;
    for (int day = 0; day < 7; day++)
        sum += account->balances[day];
    return sum / 7;
}

static void print_statement(const struct account *account)
{
    char first = account->currency[0];
    printf("average: %ld %c\n", average(account), first);
}

int main(void)
{
    struct account *account = calloc(1, sizeof *account);
    account->currency = "EUR";
    printf("the account is open\n");
    settle(account, 120000000);
    printf("the week is settled, average %ld\n", average(account));
    print_statement(account);
    return 0;
}
