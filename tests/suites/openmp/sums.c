// Target regions: a loop over an array and reductions over it, compared with the processor's results.
#include <stdio.h>
#include <stdlib.h>

#define COUNT 5000

int main(void) {
    int* values = malloc(COUNT * sizeof *values);
    for (int i = 0; i < COUNT; ++i) values[i] = i % 97;
#pragma omp target teams distribute parallel for map(tofrom : values[0 : COUNT])
    for (int i = 0; i < COUNT; ++i) values[i] = values[i] * 5 - i;
    long sum = 0;
    int most = -COUNT * 5;
#pragma omp target teams distribute parallel for reduction(+ : sum) reduction(max : most) map(to : values[0 : COUNT])
    for (int i = 0; i < COUNT; ++i) {
        sum += values[i];
        if (values[i] > most) most = values[i];
    }
    long expected_sum = 0;
    int expected_most = -COUNT * 5;
    for (int i = 0; i < COUNT; ++i) {
        int value = i % 97 * 5 - i;
        if (values[i] != value) {
            printf("FAIL values[%d] is %d, expected %d\n", i, values[i], value);
            return 1;
        }
        expected_sum += value;
        if (value > expected_most) expected_most = value;
    }
    if (sum != expected_sum || most != expected_most) {
        printf("FAIL sum %ld and most %d, expected %ld and %d\n", sum, most, expected_sum, expected_most);
        return 1;
    }
    return 0;
}
