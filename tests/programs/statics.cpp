// A handler whose report is in objects that are destroyed when the process ends: one of the library, and one for each function that
// makes it when it is called first. It takes its time, so that the process ends before the last calls.
#include "logdur_handler.h"

#include <cstdio>
#include <string>
#include <unistd.h>

namespace {

void say(const std::string &line) {
  if (write(2, (line + "\n").data(), line.size() + 1) < 0) _exit(99);
}

struct Object {
  const char *name;
  bool alive = true;
  explicit Object(const char *name) : name(name) {}
  ~Object() {
    alive = false;
    say(std::string("destroyed ") + name);
  }
  int used_in(const char *where) const {
    say(std::string(where) + " uses " + name + (alive ? ", alive" : ", destroyed"));
    return 0;
  }
};

Object of_the_library("of-the-library");

const Object &made_at_first() {
  static Object object("made-at-first");
  return object;
}

const Object &made_by_messages() {
  static Object object("made-by-messages");
  return object;
}

int opened(const logdur_open_info *, void **, char *, size_t) { return of_the_library.used_in("open"); }

int begins(void *, const logdur_dispatch_info *, char *, size_t) {
  made_at_first();
  usleep(200000);
  return 0;
}

int messages(void *, const logdur_batch *, char *, size_t) {
  made_by_messages();
  return made_at_first().used_in("messages") + of_the_library.used_in("messages");
}

int ends(void *, const logdur_dispatch_result *, char *, size_t) {
  return made_at_first().used_in("dispatch_end") + made_by_messages().used_in("dispatch_end");
}

void closed(void *) {
  of_the_library.used_in("close");
  made_at_first().used_in("close");
  made_by_messages().used_in("close");
}

const logdur_handler_table table = {sizeof table, LOGDUR_HANDLER_VERSION, opened, begins, messages, ends, closed};

}  // namespace

extern "C" __attribute__((visibility("default"))) const logdur_handler_table *logdur_handler(const char *, uint32_t) {
  return &table;
}
