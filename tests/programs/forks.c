// A child between two kernels of its parent, which ends in one of several ways.
//   forks exit|_exit|exec
#include "hsa_check.h"

#include <sys/wait.h>

int main(int argc, char** argv) {
    EXPECT(argc == 2, "usage: forks exit|_exit|exec");
    start();
    load();
    hsa_queue_t* queue = queue_of(64, NULL, NULL);
    uint32_t* words = allocate(host, 64 * sizeof(uint32_t));
    void* kernarg = kernarg_of(words);
    dispatch(queue, kernel("increment"), 1, kernarg, NO_SIGNAL);
    drain(queue);
    pid_t child = fork();
    if (child == 0) {
        if (!strcmp(argv[1], "exec")) execlp("true", "true", NULL);
        if (!strcmp(argv[1], "_exit")) _exit(0);
        exit(0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with %#x", status);
    dispatch(queue, kernel("increment"), 1, kernarg, NO_SIGNAL);
    drain(queue);
    EXPECT(words[0] == 2, "%u kernels ran", words[0]);
    printf("PASS\n");
    CHECK(hsa_queue_destroy(queue));
    CHECK(hsa_shut_down());
    return 0;
}
