// A process and its child, which send each other messages. Include it behind a header with EXPECT.
#pragma once

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

// Whole messages only.
static void give(int pipe, const void* bytes, size_t size) { EXPECT(write(pipe, bytes, size) == (ssize_t)size, "write"); }
static void take(int pipe, void* bytes, size_t size) { EXPECT(read(pipe, bytes, size) == (ssize_t)size, "read"); }

// The child, as its parent sees it.
struct child {
    pid_t id;
    int to, from;
};

// Starts a child without the library. It runs `work` with pipes to and from its parent, which does not return.
static struct child child_of(void (*work)(int to, int from)) {
    int there[2], back[2];
    EXPECT(pipe(there) == 0 && pipe(back) == 0, "pipe");
    const pid_t id = fork();
    EXPECT(id >= 0, "fork");
    if (id == 0) {
        // A parent that is gone is not waited for.
        close(back[1]);
        unsetenv("HSA_TOOLS_LIB");
        work(there[1], back[0]);
    }
    // A child that is gone is not waited for.
    close(there[1]);
    return (struct child){id, back[1], there[0]};
}

static void expect_end(struct child child) {
    int status;
    EXPECT(waitpid(child.id, &status, 0) == child.id && status == 0, "the child ended with %#x", status);
}
