// A handler that finds code objects where their URIs say that they are, as LLVM's AMDGPUUsage describes these ("Loaded Code Object
// Path Uniform Resource Identifier"), and saves what it has found there: `OUTPUT.N.elf` for dispatch N.
#include "logdur_handler.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
  logdur_host host;
  char output[512];
} origin;

// A file's name, in which `%` and two digits stand for a byte.
static void decode(char *name) {
  char *to = name;
  unsigned byte;
  for (; *name; ++name, ++to) {
    *to = *name;
    if (*name == '%' && sscanf(name + 1, "%2x", &byte) == 1) *to = (char)byte, name += 2;
  }
  *to = 0;
}

// Reads from a file; of no length, all that is behind the offset.
static uint8_t *read_file(const char *name, uint64_t offset, uint64_t *length) {
  int file = open(name, O_RDONLY | O_CLOEXEC);
  uint64_t used = 0;
  uint8_t *bytes;
  if (file < 0) return NULL;
  if (*length == 0) *length = (uint64_t)lseek(file, 0, SEEK_END) - offset;
  bytes = malloc(*length + 1);
  while (used < *length) {
    ssize_t got = pread(file, bytes + used, *length - used, (off_t)(offset + used));
    if (got <= 0) break;
    used += (uint64_t)got;
  }
  close(file);
  if (used == *length) return bytes;
  free(bytes);
  return NULL;
}

// What is where a URI says, and its length.
static uint8_t *find(const char *uri, uint64_t *length) {
  char name[1024];
  const char *path = strstr(uri, "://"), *range;
  uint64_t offset = 0;
  *length = 0;
  if (!path) return NULL;
  path += 3;
  range = path + strcspn(path, "#?");
  snprintf(name, sizeof name, "%.*s", (int)(range - path), path);
  // Numbers are in C's notation: decimal, hexadecimal or octal.
  if (*range) {
    const char *size = strstr(range, "&size=");
    if (strncmp(range + 1, "offset=", 7) != 0 || !size) return NULL;
    offset = strtoull(range + 8, NULL, 0), *length = strtoull(size + 6, NULL, 0);
  }
  if (strncmp(uri, "file://", 7) == 0) {
    decode(name);
    return read_file(name, offset, length);
  }
  if (strncmp(uri, "memory://", 9) != 0 || atoi(name) != getpid() || *length == 0) return NULL;
  return read_file("/proc/self/mem", offset, length);
}

static int opened(const logdur_open_info *info, void **context, char *error, size_t room) {
  origin *self = calloc(1, sizeof *self);
  (void)error, (void)room;
  self->host = *info->host;
  snprintf(self->output, sizeof self->output, "%s", info->output);
  *context = self;
  return 0;
}

static int begins(void *context, const logdur_dispatch_info *info, char *error, size_t room) {
  origin *self = context;
  uint64_t length;
  uint8_t *found = find(info->code_uri, &length);
  int same = found && info->code_bytes == length && memcmp(found, info->code, length) == 0;
  char text[2048], name[600];
  (void)error, (void)room;
  snprintf(text, sizeof text, "%" PRIu64 " %d %s %s\n", info->dispatch, same, info->clone, info->code_uri);
  self->host.write(self->host.context, text, strlen(text));
  snprintf(name, sizeof name, "%s.%" PRIu64 ".elf", self->output, info->dispatch);
  if (found) {
    FILE *file = fopen(name, "wb");
    fwrite(found, 1, length, file);
    fclose(file);
  }
  free(found);
  return 0;
}

static void closed(void *context) { free(context); }

const logdur_handler_table *logdur_handler(const char *name, uint32_t version) {
  static const logdur_handler_table table = {sizeof table, LOGDUR_HANDLER_VERSION, opened, begins, NULL, NULL, closed};
  (void)version;
  return *name ? NULL : &table;
}
