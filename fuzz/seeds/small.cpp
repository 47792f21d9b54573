// As many kinds of debug information as fit into a few kilobytes; there is no library behind it. Also C.
enum colour { RED, GREEN = 7 };
union number { int whole; float real; };
struct point { int x : 5; unsigned y : 20; union number part; enum colour tint; };
struct node { struct node *next; const char *name; struct point points[3]; int (*call)(int, char); };
typedef struct node *list;

#ifdef __cplusplus
template <typename T, int N> struct Box : node {
    T items[N];
    virtual T sum() const { T all = T(); for (int i = 0; i < N; i++) all += items[i]; return all; }
    virtual ~Box() {}
};
namespace shapes { inline namespace one { struct Text { unsigned long length; char *start; }; } }
void operator delete(void *) noexcept {}
void operator delete(void *, unsigned long) noexcept {}
static shapes::Text words = {4, 0};
static auto doubled = [](int n) { return n * 2; };
#endif

static int total;
static struct node first = {&first, "first", {{1, 2, {3}, GREEN}}, 0};

static inline __attribute__((always_inline)) int square(int number) {
    int result = number * number;
    return result + total;
}

__attribute__((noinline)) static int length(list at, int most) {
    int count = 0;
    while (at && count < most) {
        count += square(at->points[count % 3].x);
        at = at->next;
    }
    return count;
}

#ifdef __cplusplus
extern "C"
#endif
int main(int argc, char **argv) {
    struct point where = {1, 2, {3}, RED};
    double ratio = argc / 2.0;
#ifdef __cplusplus
    Box<short, 4> box;
    box.items[0] = (short)doubled(argc);
    total += box.sum() + (int)words.length;
#endif
    total += length(&first, argc) + where.x + (int)ratio;
    return total + (argv != 0);
}

#ifdef __cplusplus
extern "C"
#endif
void _start(void) { main(1, 0); }
