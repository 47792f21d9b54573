#include <stdlib.h>

struct node {
    int value;
    struct node *next;
};

/* Puts a value in front of a list; the caller owns the result. */
struct node *push(struct node *head, int value)
{
    struct node *added = malloc(sizeof *added);
    if (!added)
        return NULL;
    added->value = value;
    added->next = head;
    return added;
}

/* Turns a list around in place, in one pass. */
struct node *reverse(struct node *head)
{
    struct node *before = NULL;
    while (head) {
        struct node *next = head->next;
        head->next = before;
        before = head;
        head = next;
    }
    return before;
}
