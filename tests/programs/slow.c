// A handler that takes its time with each batch. With the option `notices=N` it says N notices in the second dispatch; with `closes`
// it closes, at each batch, the descriptors of the library's own files, and opens files of its own in their place: `OUTPUT.own.N`.
// It writes at the end how many addresses there were, and how many kilobytes of memory the process had beyond those when the second
// dispatch began: then the runtime has what it needs.
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
  uint64_t notices, addresses;
  int dispatches;
  long resident, most;
  int closes, own;
} slow;

// The process's memory that is resident, in kilobytes.
static long resident(void) {
  FILE *status = fopen("/proc/self/status", "r");
  char line[256];
  long value = 0;
  while (fgets(line, sizeof line, status))
    if (strncmp(line, "VmRSS:", 6) == 0) value = atol(line + 6);
  fclose(status);
  return value;
}

static void look(slow *self) {
  long now = resident();
  if (now > self->most) self->most = now;
}

static int opened(const logdur_open_info *info, void **context, char *error, size_t room) {
  slow *self = calloc(1, sizeof *self);
  uint64_t i;
  (void)error, (void)room;
  self->host = *info->host;
  snprintf(self->output, sizeof self->output, "%s", info->output);
  for (i = 0; i < info->option_count; ++i) {
    if (strcmp(info->options[i].key, "notices") == 0) self->notices = strtoull(info->options[i].value, NULL, 10);
    if (strcmp(info->options[i].key, "closes") == 0) self->closes = 1;
  }
  *context = self;
  return 0;
}

static int begins(void *context, const logdur_dispatch_info *info, char *error, size_t room) {
  slow *self = context;
  (void)info, (void)error, (void)room;
  if (++self->dispatches == 2) self->resident = self->most = resident();
  return 0;
}

// The library's files are the log and the output of handlers.
static void take_descriptors(slow *self) {
  char name[64], path[600];
  int number;
  for (number = 3; number < 1100; ++number) {
    ssize_t length;
    snprintf(name, sizeof name, "/proc/self/fd/%d", number);
    length = readlink(name, path, sizeof path - 1);
    if (length <= 0) continue;
    path[length] = 0;
    if (strcmp(path, self->output) != 0 && !(length > 4 && strcmp(path + length - 4, ".csv") == 0)) continue;
    snprintf(path, sizeof path, "%s.own.%d", self->output, self->own++);
    int own = open(path, O_RDWR | O_CREAT, 0600);
    if (write(own, "mine\n", 5) == 5) dup2(own, number);
    close(own);
  }
}

static int messages(void *context, const logdur_batch *batch, char *error, size_t room) {
  slow *self = context;
  logdur_message message;
  uint64_t at = 0;
  (void)error, (void)room;
  while (logdur_next(batch, &at, &message)) self->addresses += message.items;
  for (; self->dispatches > 1 && self->notices > 0; --self->notices) {
    char text[128];
    snprintf(text, sizeof text, "%" PRIu64 " notices are left, each of which is a line that needs some memory", self->notices);
    self->host.notice(self->host.context, text);
    if (self->notices % 1000 == 0) look(self);
  }
  look(self);
  if (self->closes) {
    self->host.write(self->host.context, "batch\n", 6);
    take_descriptors(self);
  }
  usleep(1000);
  return 0;
}

static void closed(void *context) {
  slow *self = context;
  char text[128];
  snprintf(text, sizeof text, "addresses %" PRIu64 " more-kilobytes %ld\n", self->addresses, self->most - self->resident);
  self->host.write(self->host.context, text, strlen(text));
  free(self);
}

const logdur_handler_table *logdur_handler(const char *name, uint32_t version) {
  static const logdur_handler_table table = {sizeof table, LOGDUR_HANDLER_VERSION, opened, begins, messages, NULL, closed};
  (void)version;
  return *name ? NULL : &table;
}
