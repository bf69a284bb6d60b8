// Target regions of every kind that a compiler makes another kernel of, checked on the host.
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

#define N 20000

// Told apart by it from the same region that somebody has changed.
#ifndef ADDED
#define ADDED 0
#endif

#pragma omp begin declare target
int weights[64];
double total = 1.5;
int twice(int value) { return 2 * value + ADDED; }
#pragma omp end declare target

#define EXPECT(condition, ...)   \
    do {                         \
        if (!(condition)) {      \
            printf("FAIL ");     \
            printf(__VA_ARGS__); \
            printf("\n");        \
            exit(1);             \
        }                        \
    } while (0)

// A plain loop, in place.
static void scaled(int* values) {
#pragma omp target teams distribute parallel for map(tofrom : values[0 : N])
    for (int i = 0; i < N; ++i) values[i] = 3 * values[i] + i;
    for (int i = 0; i < N; ++i) EXPECT(values[i] == 3 * (i % 100) + i, "scaled [%d] is %d", i, values[i]);
}

// Reductions of several kinds, exact in any order.
static void reduced(const int* values) {
    long sum = 0;
    int most = 0;
#pragma omp target teams distribute parallel for reduction(+ : sum) reduction(max : most) map(to : values[0 : N])
    for (int i = 0; i < N; ++i) {
        sum += values[i];
        if (values[i] > most) most = values[i];
    }
    long expected = 0;
    int largest = 0;
    for (int i = 0; i < N; ++i) {
        expected += values[i];
        if (values[i] > largest) largest = values[i];
    }
    EXPECT(sum == expected && most == largest, "reduced: %ld, %d", sum, most);
}

// Variables of the device, written by one region and read by the next.
static void declared(void) {
    for (int i = 0; i < 64; ++i) weights[i] = i;
#pragma omp target update to(weights)
#pragma omp target
    {
        for (int i = 0; i < 64; ++i) weights[i] = twice(weights[i]) + 1;
        total += 2;
    }
#pragma omp target update from(weights, total)
    for (int i = 0; i < 64; ++i) EXPECT(weights[i] == 2 * i + 1, "declared [%d] is %d", i, weights[i]);
    EXPECT(total == 3.5, "declared: %f", total);
}

// Teams and threads as they are asked for, and work of a team's own between parallel loops.
static void limited(int teams, int threads, int* values) {
#pragma omp target teams distribute num_teams(teams) thread_limit(threads) map(from : values[0 : N])
    for (int block = 0; block < N / 100; ++block) {
        int first = block * 100;
#pragma omp parallel for
        for (int i = 0; i < 100; ++i) values[first + i] = first - i + teams;
    }
    for (int i = 0; i < N; ++i) {
        int first = i / 100 * 100;
        EXPECT(values[i] == first - i % 100 + teams, "limited to %d by %d: [%d] is %d", teams, threads, i, values[i]);
    }
}

// Regions that do not wait for each other, but where they depend.
static void deferred(int* a, int* b) {
#pragma omp target enter data map(alloc : a[0 : N], b[0 : N])
#pragma omp target teams distribute parallel for nowait depend(out : a[0])
    for (int i = 0; i < N; ++i) a[i] = i;
#pragma omp target teams distribute parallel for nowait depend(out : b[0])
    for (int i = 0; i < N; ++i) b[i] = 7 * i;
#pragma omp target teams distribute parallel for nowait depend(in : b[0]) depend(inout : a[0])
    for (int i = 0; i < N; ++i) a[i] += b[i];
#pragma omp taskwait
#pragma omp target exit data map(from : a[0 : N]) map(delete : b[0 : N])
    for (int i = 0; i < N; ++i) EXPECT(a[i] == 8 * i, "deferred [%d] is %d", i, a[i]);
}

// The same on every device.
static void everywhere(int* values) {
    for (int device = 0; device < omp_get_num_devices(); ++device) {
#pragma omp target teams distribute parallel for device(device) map(from : values[0 : N])
        for (int i = 0; i < N; ++i) values[i] = i ^ device;
        for (int i = 0; i < N; ++i) EXPECT(values[i] == (i ^ device), "device %d: [%d] is %d", device, i, values[i]);
    }
}

int main(void) {
    EXPECT(omp_get_num_devices() > 0, "no device");
    int on_host = 1;
#pragma omp target map(tofrom : on_host)
    on_host = 2 * omp_is_initial_device();
    EXPECT(!on_host, "regions run on the host");
    int* a = malloc(N * sizeof *a);
    int* b = malloc(N * sizeof *b);
    for (int i = 0; i < N; ++i) a[i] = i % 100;
    scaled(a);
    reduced(a);
    declared();
    limited(1, 64, a);
    limited(7, 128, a);
    limited(40, 256, a);
    deferred(a, b);
    everywhere(b);
    printf("PASS\n");
    return 0;
}
