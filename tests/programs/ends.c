// Dispatches N times, while the process ends or forks in an unusual way.
//   ends MODE N
// thread-exit, thread-_exit, thread-quick_exit, thread-shut_down: another thread does it, when all dispatches are complete.
// handler-exit: the handler of a signal does it. quick_exit, abort: main does it.
// dispatching-exit, dispatching-_exit: another thread still dispatches when main does it.
// fork-exit, fork-_exit, fork-exec: another thread forks again and again while main dispatches; so end the children.
#include "hsa_check.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

static const char* way;
static hsa_queue_t* queue;
static void* kernarg;
static uint64_t increment;
static atomic_bool over;
static atomic_int forks, dispatched;

static void end(void) {
    if (!strcmp(way, "exit")) exit(7);
    if (!strcmp(way, "_exit")) _exit(7);
    if (!strcmp(way, "quick_exit")) quick_exit(7);
    if (!strcmp(way, "abort")) abort();
    if (!strcmp(way, "exec")) execlp("false", "false", NULL);
    CHECK(hsa_shut_down());
}

static void handler(int signal) {
    (void)signal;
    end();
}

static void* ends(void* none) {
    end();
    return none;
}

static void* dispatches(void* none) {
    // Its own queue: main drains the other one.
    hsa_queue_t* own = queue_of(256, NULL, NULL);
    for (;;) {
        dispatch(own, increment, 1, kernarg, NO_SIGNAL);
        atomic_fetch_add(&dispatched, 1);
    }
    return none;
}

static void* forking(void* none) {
    while (!atomic_load(&over)) {
        const pid_t child = fork();
        if (!child) end();
        int status = 0;
        EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status), "the child ended with %#x", status);
        EXPECT(WEXITSTATUS(status) == (strcmp(way, "exec") ? 7 : 1), "the child ended with %#x", status);
        atomic_fetch_add(&forks, 1);
    }
    return none;
}

int main(int argc, char** argv) {
    EXPECT(argc == 3 && strchr(argv[1], '-'), "usage: ends MODE N");
    way = strchr(argv[1], '-') + 1;
    const int count = atoi(argv[2]);
    start();
    load();
    queue = queue_of(256, NULL, NULL);
    uint32_t* words = allocate(host, 64 * sizeof(uint32_t));
    kernarg = kernarg_of(words);
    increment = kernel("increment");
    pthread_t other;
    const bool is_fork = !strncmp(argv[1], "fork", 4), is_dispatching = !strncmp(argv[1], "dispatching", 11);
    if (is_fork) pthread_create(&other, NULL, forking, NULL);
    if (is_dispatching) pthread_create(&other, NULL, dispatches, NULL);
    for (int i = 0; i < count || (is_fork && atomic_load(&forks) < 5); ++i) {
        dispatch(queue, increment, 1, kernarg, NO_SIGNAL);
    }
    drain(queue);
    while (is_dispatching && atomic_load(&dispatched) < count) sched_yield();
    if (!is_dispatching && !is_fork) EXPECT(words[0] == (uint32_t)count, "%u kernels ran", words[0]);
    if (is_fork) {
        atomic_store(&over, true);
        pthread_join(other, NULL);
    }
    printf("PASS\n");
    fflush(stdout);
    if (is_fork) return 7;
    if (!strncmp(argv[1], "main", 4) || is_dispatching) end();
    if (!strncmp(argv[1], "handler", 7)) {
        signal(SIGUSR1, handler);
        raise(SIGUSR1);
    }
    pthread_create(&other, NULL, ends, NULL);
    pthread_join(other, NULL);
    // Only where the runtime was shut down.
    return 7;
}
