// A handler that writes each address of each lane, and what becomes of the dispatches. The option `fail` names what it fails in,
// or is `never`, with which it never returns from its last call.
#include "logdur_handler.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
  logdur_host host;
  char fail[32];
  int batches;
} lister;

static int say(lister *self, const char *text) {
  return self->host.write(self->host.context, text, strlen(text));
}

static int fails(lister *self, const char *where, char *error, size_t room) {
  if (strcmp(self->fail, where) != 0) return 0;
  snprintf(error, room, "as the option says, in %s", where);
  return 1;
}

static int opened(const logdur_open_info *info, void **context, char *error, size_t room) {
  lister *self = calloc(1, sizeof *self);
  uint64_t i;
  self->host = *info->host;
  *context = self;
  for (i = 0; i < info->option_count; ++i)
    if (strcmp(info->options[i].key, "fail") == 0)
      snprintf(self->fail, sizeof self->fail, "%s", info->options[i].value);
  return fails(self, "open", error, room);
}

static int begins(void *context, const logdur_dispatch_info *info, char *error, size_t room) {
  char text[512];
  snprintf(text, sizeof text, "begin %" PRIu64 " %s mangled %s clone %s grid %ux%ux%u workgroup %ux%ux%u on %s agent %u elf %d\n",
           info->dispatch, info->kernel, info->mangled, info->clone, info->grid[0], info->grid[1], info->grid[2],
           info->workgroup[0], info->workgroup[1], info->workgroup[2], info->processor, info->agent,
           info->code && info->code_bytes > 4 && memcmp(info->code, "\177ELF", 4) == 0);
  say(context, text);
  return fails(context, "begin", error, room);
}

static int messages(void *context, const logdur_batch *batch, char *error, size_t room) {
  lister *self = context;
  size_t most = 65536, used = 0;
  char *text = malloc(most);
  logdur_message message;
  uint64_t at = 0, count = 0;
  self->batches++;
  while (logdur_next(batch, &at, &message)) {
    uint64_t left = message.exec;
    uint32_t item;
    count++;
    if (message.kind != LOGDUR_KIND_ADDRESS) {
      used += (size_t)snprintf(text + used, most - used, "kind %u of %" PRIu64 "\n", message.kind, batch->dispatch);
      continue;
    }
    for (item = 0; item < message.items; ++item) {
      int lane = __builtin_ctzll(left);
      left &= left - 1;
      if (most - used < 256) text = realloc(text, most *= 2);
      used += (size_t)snprintf(text + used, most - used, "address %" PRIu64 " %u %u.%u.%u %u %d %" PRIx64 "\n", batch->dispatch,
                               message.user_data, message.block[0], message.block[1], message.block[2], message.wave, lane,
                               logdur_address(&message, item));
    }
  }
  if (count != batch->messages) say(self, "wrong count of messages\n");
  if (used > 0) self->host.write(self->host.context, text, used);
  free(text);
  return fails(self, "messages", error, room);
}

static int ends(void *context, const logdur_dispatch_result *result, char *error, size_t room) {
  char text[256];
  snprintf(text, sizeof text, "end %" PRIu64 " messages %" PRIu64 " bytes %" PRIu64 " of %" PRIu64 " errors %u timed %d\n",
           result->dispatch, result->messages, result->bytes, result->bytes_sent, result->errors, result->duration_ns > 0);
  say(context, text);
  return fails(context, "end", error, room);
}

static void closed(void *context) {
  say(context, "closed\n");
  while (strcmp(((lister *)context)->fail, "never") == 0) pause();
  free(context);
}

const logdur_handler_table *logdur_handler(const char *name, uint32_t version) {
  static const logdur_handler_table table = {sizeof table, LOGDUR_HANDLER_VERSION, opened, begins, messages, ends, closed};
  static logdur_handler_table newer, older;
  (void)version;
  if (*name) return NULL;
  newer = older = table;
  newer.version = LOGDUR_HANDLER_VERSION + 1;
  // A handler of a time in which nothing followed the messages.
  older.size = (uint64_t)((const char *)&older.dispatch_end - (const char *)&older);
  if (getenv("LISTER_NEWER")) return &newer;
  return getenv("LISTER_OLDER") ? &older : &table;
}
