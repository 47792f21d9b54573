/* What `cargo xtask bench time-travel` records. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

volatile long sparse, hot;
/* Nothing is written near it. */
volatile long secluded[1024] __attribute__((aligned(8192)));
enum { TABLE = 10 << 20 };

__attribute__((noinline)) void begin(void) { __asm__ volatile("" ::: "memory"); }
/* Whoever could look at it: the compiler must not leave it out. */
static void keep(void *bytes) { __asm__ volatile("" ::"r"(bytes) : "memory"); }

__attribute__((noinline)) void end(void) { __asm__ volatile("" ::: "memory"); }

/* Five instructions a round, one of which writes. */
__attribute__((noinline)) void spin(long rounds) {
    long sum = 0, mix = 1;
    __asm__ volatile("1: incq %[hot]\n\t"
                     "leaq 3(%[sum]), %[sum]\n\t"
                     "xorq %[sum], %[mix]\n\t"
                     "decq %[rounds]\n\t"
                     "jnz 1b"
                     : [hot] "+m"(hot), [sum] "+r"(sum), [mix] "+r"(mix), [rounds] "+r"(rounds)
                     :
                     : "cc");
}

__attribute__((noinline)) void mark(void) { __asm__ volatile("" ::: "memory"); }

/* Changes ten megabytes here and there, and comes to `mark` after so many rounds, again and again. */
static void table(long rounds, long between) {
    volatile unsigned *cells = calloc(TABLE, 1);
    unsigned long state = 88172645463325252ul;
    long left = between;
    for (long round = 0; round < rounds; round++) {
        if (--left == 0) {
            mark();
            left = between;
        }
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        cells[state % (TABLE / sizeof *cells)] += (unsigned)state;
    }
    free((void *)cells);
}

__attribute__((noinline)) long visit(long round, long mix) { return mix * 31 + round; }

/* Comes to one function again and again. */
static void passes(long count) {
    long mix = 1;
    for (long round = 0; round < count; round++)
        mix = visit(round, mix);
    keep(&mix);
}

static void calls(const char *device, long count) {
    char bytes[64];
    int file = open(device, O_RDONLY);
    for (long call = 0; call < count; call++)
        if (read(file, bytes, sizeof bytes) != sizeof bytes)
            abort();
}

/* Into a file, in pieces of the usual size. */
static void lines(long count) {
    FILE *file = tmpfile();
    for (long line = 0; line < count; line++)
        fprintf(file, "line %ld of many\n", line);
    fclose(file);
}

static void *compute(void *rounds) {
    volatile unsigned long state = 88172645463325252ul;
    for (long round = 0; round < *(long *)rounds; round++)
        state = state * 6364136223846793005ul + 1;
    return NULL;
}

static void threads(long rounds) {
    enum { THREADS = 4 };
    pthread_t made[THREADS];
    for (int thread = 0; thread < THREADS; thread++)
        pthread_create(&made[thread], NULL, compute, &rounds);
    for (int thread = 0; thread < THREADS; thread++)
        pthread_join(made[thread], NULL);
}

static void allocate(long count) {
    enum { LIVE = 4096 };
    static char *blocks[LIVE];
    unsigned state = 1;
    for (long step = 0; step < count; step++) {
        state = state * 1664525u + 1013904223u;
        char **block = &blocks[state >> 20];
        free(*block);
        size_t size = 16 + (state >> 8) % 2000;
        *block = malloc(size);
        memset(*block, (int)state, size);
    }
}

static void memory(long megabytes) {
    size_t size = (size_t)megabytes << 20;
    char *bytes = malloc(size);
    for (int pass = 0; pass < 4; pass++)
        memset(bytes, pass, size), keep(bytes);
}

int main(int count, char **arguments) {
    if (count != 3)
        return 2;
    const char *mode = arguments[1];
    long amount = atol(arguments[2]);
    sparse = secluded[0] = 1;
    begin();
    if (!strcmp(mode, "spin"))
        spin(amount);
    else if (!strcmp(mode, "table"))
        table(amount, amount);
    else if (!strcmp(mode, "marks"))
        table(LONG_MAX, amount);
    else if (!strcmp(mode, "passes"))
        passes(amount);
    else if (!strcmp(mode, "calls"))
        calls("/dev/zero", amount);
    else if (!strcmp(mode, "random"))
        calls("/dev/urandom", amount);
    else if (!strcmp(mode, "lines"))
        lines(amount);
    else if (!strcmp(mode, "threads"))
        threads(amount);
    else if (!strcmp(mode, "allocate"))
        allocate(amount);
    else if (!strcmp(mode, "memory"))
        memory(amount);
    else
        return 2;
    end();
    return 0;
}
