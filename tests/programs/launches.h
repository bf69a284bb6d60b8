// A description of launches, read from a file: what the programs that launch any kernel are told. Words separated by
// blanks, one directive after the other; file names are relative to the working folder.
//
//   buffer FILE SIZE             memory for the kernel; the file's bytes at first, and after the launch the file has the kernel's
//   value FILE SIZE              an argument by value             (OpenCL)
//   pointer BUFFER               an argument: a buffer's address  (OpenCL)
//   local SIZE                   an argument: local memory        (OpenCL)
//   kernarg FILE SIZE            the kernel's arguments           (HSA)
//   relocate OFFSET BUFFER ADD   at this offset of them: a buffer's address, and so many bytes  (HSA)
//   queue OFFSET                 at this offset of them: the queue's address  (HSA)
//   launch KERNEL DIMENSIONS GRID_X GRID_Y GRID_Z WORKGROUP_X WORKGROUP_Y WORKGROUP_Z LDS
//                                launches (the grid in work-items) and waits; what was described before is forgotten
#pragma once
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64 };

struct bytes {
    char file[64];
    size_t size;
    void* data;
};

struct launch {
    char kernel[512];
    uint32_t dimensions, grid[3], workgroup[3], lds;
    int buffers, relocations, arguments;
    struct bytes buffer[MOST], kernarg;
    struct relocation {
        size_t offset, buffer, add;
    } relocation[MOST];
    struct argument {
        enum { VALUE, POINTER, LOCAL } kind;
        struct bytes value;
        size_t number;
    } argument[MOST];
    long queue_offset;
};

static void refuse(const char* why, const char* what) {
    printf("FAIL %s: %s\n", why, what);
    exit(1);
}

static void words(int got, int expected, const char* directive) {
    if (got != expected) refuse("directive without its words", directive);
}

static struct bytes read_bytes(FILE* description, const char* directive) {
    struct bytes bytes;
    words(fscanf(description, "%63s %zu", bytes.file, &bytes.size), 2, directive);
    bytes.data = malloc(bytes.size + 1);
    FILE* file = fopen(bytes.file, "rb");
    if (!file || fread(bytes.data, 1, bytes.size, file) != bytes.size) refuse("cannot be read", bytes.file);
    fclose(file);
    return bytes;
}

static void write_bytes(const struct bytes* bytes) {
    FILE* file = fopen(bytes->file, "wb");
    if (!file || fwrite(bytes->data, 1, bytes->size, file) != bytes->size || fclose(file)) {
        refuse("cannot be written", bytes->file);
    }
}

// The next launch of a description; 0 at its end.
static int next_launch(FILE* file, struct launch* launch) {
    char word[16];
    memset(launch, 0, sizeof *launch);
    launch->queue_offset = -1;
    while (fscanf(file, "%15s", word) == 1) {
        if (launch->buffers == MOST || launch->relocations == MOST || launch->arguments == MOST) refuse("too many", word);
        if (!strcmp(word, "buffer")) {
            launch->buffer[launch->buffers++] = read_bytes(file, word);
        } else if (!strcmp(word, "kernarg")) {
            launch->kernarg = read_bytes(file, word);
        } else if (!strcmp(word, "relocate")) {
            struct relocation* r = &launch->relocation[launch->relocations++];
            words(fscanf(file, "%zu %zu %zu", &r->offset, &r->buffer, &r->add), 3, word);
        } else if (!strcmp(word, "queue")) {
            words(fscanf(file, "%ld", &launch->queue_offset), 1, word);
        } else if (!strcmp(word, "value")) {
            launch->argument[launch->arguments].value = read_bytes(file, word);
            launch->argument[launch->arguments++].kind = VALUE;
        } else if (!strcmp(word, "pointer") || !strcmp(word, "local")) {
            struct argument* argument = &launch->argument[launch->arguments++];
            argument->kind = word[0] == 'p' ? POINTER : LOCAL;
            words(fscanf(file, "%zu", &argument->number), 1, word);
        } else if (!strcmp(word, "launch")) {
            uint32_t *grid = launch->grid, *group = launch->workgroup;
            int got = fscanf(file, "%511s %u %u %u %u %u %u %u %u", launch->kernel, &launch->dimensions, grid, grid + 1,
                             grid + 2, group, group + 1, group + 2, &launch->lds);
            words(got, 9, word);
            return 1;
        } else {
            refuse("unknown directive", word);
        }
    }
    return 0;
}
