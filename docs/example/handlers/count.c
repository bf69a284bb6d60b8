/* A handler in C: how many messages of each kind a dispatch sends, and how many bytes its lanes read and write.
 *
 * cc -std=c99 -shared -fPIC -I instrument/include -o count.so docs/example/handlers/count.c
 * omniprobe -i -a ./count.so -- ./app */

#include "logdur_handler.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* What is counted of a dispatch. */
typedef struct dispatch {
  uint64_t number;
  char kernel[128];
  uint64_t addresses, blocks, intervals, others, bytes_read, bytes_written;
  struct dispatch *next;
} dispatch;

typedef struct {
  logdur_host host;
  dispatch *running;
} count;

static dispatch *find(count *self, uint64_t number) {
  dispatch *at = self->running;
  while (at && at->number != number) at = at->next;
  return at;
}

static int opened(const logdur_open_info *info, void **context, char *error, size_t room) {
  count *self = calloc(1, sizeof *self);
  if (!self) {
    snprintf(error, room, "out of memory");
    return 1;
  }
  self->host = *info->host;
  *context = self;
  return 0;
}

static int begins(void *context, const logdur_dispatch_info *info, char *error, size_t room) {
  count *self = context;
  dispatch *new = calloc(1, sizeof *new);
  if (!new) {
    snprintf(error, room, "out of memory");
    return 1;
  }
  new->number = info->dispatch;
  snprintf(new->kernel, sizeof new->kernel, "%s", info->kernel);
  new->next = self->running;
  self->running = new;
  return 0;
}

static int messages(void *context, const logdur_batch *batch, char *error, size_t room) {
  dispatch *of = find(context, batch->dispatch);
  logdur_message message;
  uint64_t at = 0;
  if (!of) {
    snprintf(error, room, "messages of dispatch %" PRIu64 ", which has not begun", batch->dispatch);
    return 1;
  }
  while (logdur_next(batch, &at, &message)) {
    uint64_t bytes = (uint64_t)logdur_access_bytes(&message) * message.items;
    switch (message.kind) {
      case LOGDUR_KIND_ADDRESS:
        of->addresses++;
        if (logdur_access_reads(&message)) of->bytes_read += bytes;
        if (logdur_access_writes(&message)) of->bytes_written += bytes;
        break;
      case LOGDUR_KIND_BLOCK_START: of->blocks++; break;
      case LOGDUR_KIND_TIME_INTERVAL: of->intervals++; break;
      default: of->others++;
    }
  }
  return 0;
}

static int ends(void *context, const logdur_dispatch_result *result, char *error, size_t room) {
  count *self = context;
  dispatch *of = find(self, result->dispatch), **from = &self->running;
  char line[512];
  int length;
  if (!of) return 0;
  length = snprintf(line, sizeof line,
                    "%s: dispatch %" PRIu64 ": %" PRIu64 " addresses, %" PRIu64 " blocks, %" PRIu64 " intervals, %" PRIu64
                    " others, %" PRIu64 " bytes read, %" PRIu64 " written, errors %" PRIu32 "\n",
                    of->kernel, of->number, of->addresses, of->blocks, of->intervals, of->others, of->bytes_read,
                    of->bytes_written, result->errors);
  while (*from != of) from = &(*from)->next;
  *from = of->next;
  free(of);
  if (self->host.write(self->host.context, line, (size_t)length) != 0) {
    snprintf(error, room, "the report cannot be written");
    return 1;
  }
  return 0;
}

static void closed(void *context) {
  count *self = context;
  while (self->running) {
    dispatch *next = self->running->next;
    free(self->running);
    self->running = next;
  }
  free(self);
}

const logdur_handler_table *logdur_handler(const char *name, uint32_t version) {
  static const logdur_handler_table table = {
      sizeof table, LOGDUR_HANDLER_VERSION, opened, begins, messages, ends, closed,
  };
  (void)version;
  return *name ? NULL : &table;
}
