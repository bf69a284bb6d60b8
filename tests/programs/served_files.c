// A file system that a server keeps, as a network's is: the server is this process, which the kernel asks by fuse(4). Runs a program on
// it, and copies what it has got by the program's end into another folder.
//   served_files FOLDER COPIES stalls|quota BYTES PROGRAM [ARGUMENT...]
// stalls: once it has got so many bytes, the server answers nothing more until the program has ended. quota: it takes no more bytes.
// Ends with the program's status. A program that does not end though nothing is answered is told of, and is answered again.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXPECT(condition, ...)   \
    do {                         \
        if (!(condition)) {      \
            printf("FAIL ");     \
            printf(__VA_ARGS__); \
            printf("\n");        \
            exit(1);             \
        }                        \
    } while (0)

// Bytes of a file, and of what the kernel passes at once.
enum { MOST = 64 << 20, PASSED = 128 << 10, FILES = 16 };
// How long a program may take to its end while nothing is answered.
enum { PATIENCE = 40000 };

static struct file {
    char name[256];
    uint8_t* bytes;
    uint64_t size;
    uint32_t mode;
    bool is_there;
} files[FILES];
static uint64_t all, limit;
static bool stalls;
static int kernel;

static void answer(uint64_t unique, int error, const void* body, size_t bytes) {
    static uint8_t out[PASSED + 4096];
    const struct fuse_out_header head = {.len = (uint32_t)(sizeof head + bytes), .error = -error, .unique = unique};
    memcpy(out, &head, sizeof head);
    if (bytes) memcpy(out + sizeof head, body, bytes);
    // What was interrupted meanwhile is nobody's.
    EXPECT(write(kernel, out, head.len) == (ssize_t)head.len || errno == ENOENT, "no answer: %s", strerror(errno));
}

static struct file* file_of(uint64_t node) {
    return node >= 2 && node < 2 + FILES ? &files[node - 2] : NULL;
}

static struct file* named(const char* name) {
    for (int i = 0; i < FILES; ++i)
        if (files[i].is_there && !strcmp(files[i].name, name)) return &files[i];
    return NULL;
}

static struct fuse_attr about(const struct file* file) {
    struct fuse_attr attr = {.ino = 1, .mode = 040700, .nlink = 2, .blksize = 4096};
    if (!file) return attr;
    attr.ino = (uint64_t)(file - files) + 2;
    attr.mode = 0100000 | (file->mode & 07777);
    attr.nlink = file->is_there;
    attr.size = file->size;
    attr.blocks = (file->size + 511) / 512;
    return attr;
}

static struct fuse_entry_out entry(const struct file* file) {
    const struct fuse_attr attr = about(file);
    return (struct fuse_entry_out){.nodeid = attr.ino, .attr = attr};
}

// Makes room for bytes up to an end; how many there is none for.
static uint64_t grow(struct file* file, uint64_t end) {
    const uint64_t wanted = end > file->size ? end - file->size : 0;
    const uint64_t left = stalls ? wanted : all < limit ? limit - all : 0;
    const uint64_t got = wanted < left ? wanted : left;
    all += got;
    file->size += got;
    EXPECT(file->size <= MOST, "the file %s is larger than expected", file->name);
    return wanted - got;
}

static struct file* create(const char* name, uint32_t mode) {
    for (int i = 0; i < FILES; ++i) {
        struct file* file = &files[i];
        if (file->bytes) continue;
        file->bytes = calloc(1, MOST);
        EXPECT(file->bytes, "no memory");
        EXPECT(strlen(name) < sizeof file->name, "the name %s is longer than expected", name);
        strcpy(file->name, name);
        file->mode = mode;
        file->is_there = true;
        return file;
    }
    return NULL;
}

static void serve(const struct fuse_in_header* in, const uint8_t* body) {
    const uint64_t unique = in->unique;
    struct file* file = file_of(in->nodeid);
    switch (in->opcode) {
        case FUSE_INIT: {
            const struct fuse_init_in* init = (const void*)body;
            const struct fuse_init_out out = {
                .major = FUSE_KERNEL_VERSION,
                .minor = FUSE_KERNEL_MINOR_VERSION,
                .max_readahead = init->max_readahead,
                .flags = FUSE_BIG_WRITES,
                .max_write = PASSED / 2,
            };
            return answer(unique, 0, &out, sizeof out);
        }
        case FUSE_LOOKUP: {
            struct file* found = named((const char*)body);
            const struct fuse_entry_out out = entry(found);
            return found ? answer(unique, 0, &out, sizeof out) : answer(unique, ENOENT, NULL, 0);
        }
        case FUSE_SETATTR: {
            const struct fuse_setattr_in* set = (const void*)body;
            if (file && set->valid & FATTR_SIZE) {
                if (set->size < file->size) {
                    memset(file->bytes + set->size, 0, file->size - set->size);
                    all -= file->size - set->size;
                    file->size = set->size;
                } else if (grow(file, set->size)) {
                    return answer(unique, EDQUOT, NULL, 0);
                }
            }
            if (file && set->valid & FATTR_MODE) file->mode = set->mode;
        }  // fall through
        case FUSE_GETATTR: {
            const struct fuse_attr_out out = {.attr = about(file)};
            return answer(unique, 0, &out, sizeof out);
        }
        case FUSE_CREATE: {
            const struct fuse_create_in* wanted = (const void*)body;
            const char* name = (const char*)(wanted + 1);
            struct file* found = named(name);
            if (found && wanted->flags & O_EXCL) return answer(unique, EEXIST, NULL, 0);
            if (!found) found = create(name, wanted->mode);
            if (!found) return answer(unique, ENOSPC, NULL, 0);
            struct {
                struct fuse_entry_out entry;
                struct fuse_open_out open;
            } out = {entry(found), {.open_flags = FOPEN_NOFLUSH}};
            return answer(unique, 0, &out, sizeof out);
        }
        case FUSE_OPEN:
        case FUSE_OPENDIR: {
            // The end of a process would wait until its files are flushed.
            const struct fuse_open_out out = {.open_flags = FOPEN_NOFLUSH};
            return answer(unique, 0, &out, sizeof out);
        }
        case FUSE_READ: {
            const struct fuse_read_in* read = (const void*)body;
            const uint64_t end = read->offset + read->size;
            const uint64_t last = end < file->size ? end : file->size;
            return answer(unique, 0, file->bytes + read->offset, last > read->offset ? last - read->offset : 0);
        }
        case FUSE_READDIR:
            return answer(unique, 0, NULL, 0);
        case FUSE_WRITE: {
            const struct fuse_write_in* wanted = (const void*)body;
            const uint64_t missing = grow(file, wanted->offset + wanted->size);
            const struct fuse_write_out out = {.size = wanted->size - (uint32_t)missing};
            if (!out.size) return answer(unique, EDQUOT, NULL, 0);
            memcpy(file->bytes + wanted->offset, wanted + 1, out.size);
            return answer(unique, 0, &out, sizeof out);
        }
        case FUSE_FALLOCATE: {
            const struct fuse_fallocate_in* wanted = (const void*)body;
            if (wanted->mode) return answer(unique, EOPNOTSUPP, NULL, 0);
            const uint64_t size = file->size;
            if (!grow(file, wanted->offset + wanted->length)) return answer(unique, 0, NULL, 0);
            all -= file->size - size;
            file->size = size;
            return answer(unique, EDQUOT, NULL, 0);
        }
        case FUSE_UNLINK: {
            struct file* found = named((const char*)body);
            if (found) found->is_there = false;
            return answer(unique, found ? 0 : ENOENT, NULL, 0);
        }
        case FUSE_STATFS: {
            const struct fuse_statfs_out out = {.st = {.bsize = 4096, .namelen = 255, .frsize = 4096}};
            return answer(unique, 0, &out, sizeof out);
        }
        case FUSE_RELEASE:
        case FUSE_RELEASEDIR:
        case FUSE_FSYNC:
        case FUSE_ACCESS:
            return answer(unique, 0, NULL, 0);
        case FUSE_FORGET:
        case FUSE_BATCH_FORGET:
        case FUSE_INTERRUPT:
            return;
        default:
            // The kernel asks for none of these again.
            return answer(unique, ENOSYS, NULL, 0);
    }
}

// Answers what the kernel asks until the program ends.
static void until_it_ends(int program) {
    static uint8_t asked[PASSED + 4096];
    struct pollfd wait[2] = {{program, POLLIN, 0}, {kernel, POLLIN, 0}};
    bool waits = false;
    while (true) {
        const bool is_silent = stalls && all >= limit && !waits;
        const int ready = poll(wait, is_silent ? 1 : 2, is_silent ? PATIENCE : -1);
        if (!ready) {
            printf("FAIL the program waits for files that nobody serves\n");
            waits = true;
        }
        if (wait[0].revents) return;
        if (is_silent || ready <= 0 || !wait[1].revents) continue;
        const ssize_t bytes = read(kernel, asked, sizeof asked);
        const struct fuse_in_header* in = (const void*)asked;
        if (bytes >= (ssize_t)sizeof *in) serve(in, asked + sizeof *in);
    }
}

int main(int argc, char** argv) {
    setvbuf(stdout, NULL, _IONBF, 0);
    EXPECT(argc > 5, "usage: served_files FOLDER COPIES stalls|quota BYTES PROGRAM [ARGUMENT...]");
    stalls = !strcmp(argv[3], "stalls");
    limit = strtoull(argv[4], NULL, 10);
    kernel = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    EXPECT(kernel >= 0, "/dev/fuse: %s", strerror(errno));
    char options[128];
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=%d,group_id=%d", kernel, getuid(), getgid());
    EXPECT(!mount("served_files", argv[1], "fuse.served_files", MS_NOSUID | MS_NODEV, options), "mount: %s", strerror(errno));
    const pid_t child = fork();
    EXPECT(child >= 0, "fork: %s", strerror(errno));
    if (!child) {
        execv(argv[5], argv + 5);
        _exit(127);
    }
    const int program = (int)syscall(SYS_pidfd_open, child, 0);
    EXPECT(program >= 0, "pidfd_open: %s", strerror(errno));
    until_it_ends(program);
    int status = 1;
    EXPECT(waitpid(child, &status, 0) == child, "waitpid: %s", strerror(errno));
    EXPECT(!chdir(argv[2]), "%s: %s", argv[2], strerror(errno));
    for (const struct file* file = files; file < files + FILES; ++file) {
        if (!file->is_there) continue;
        FILE* copy = fopen(file->name, "w");
        EXPECT(copy && fwrite(file->bytes, 1, file->size, copy) == file->size && !fclose(copy), "no copy of %s", file->name);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
