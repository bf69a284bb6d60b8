// A handler in C++: how many lanes are active at each source line of a dispatch.
//
// c++ -std=c++11 -shared -fPIC -I instrument/include -o lanes.so docs/example/handlers/lanes.cpp
// omniprobe -i -a ./lanes.so -- ./app

#include "logdur_handler.h"

#include <cstdio>
#include <exception>
#include <map>
#include <string>
#include <utility>

namespace {

struct Lanes {
  std::uint64_t messages = 0, active = 0;
};

using Place = std::pair<std::uint64_t, std::uint32_t>; // the hash of a file, and a line

struct Handler {
  logdur_host host;
  std::map<std::uint64_t, std::map<Place, Lanes>> dispatches;
};

// No exception leaves the library.
template <typename Body>
int guarded(char *error, std::size_t room, Body body) {
  try {
    body();
    return 0;
  } catch (const std::exception &failed) {
    std::snprintf(error, room, "%s", failed.what());
    return 1;
  }
}

int opened(const logdur_open_info *info, void **context, char *error, std::size_t room) {
  return guarded(error, room, [&] { *context = new Handler{*info->host, {}}; });
}

int messages(void *context, const logdur_batch *batch, char *error, std::size_t room) {
  return guarded(error, room, [&] {
    auto &places = static_cast<Handler *>(context)->dispatches[batch->dispatch];
    logdur_message message;
    for (std::uint64_t at = 0; logdur_next(batch, &at, &message);) {
      auto &lanes = places[Place(message.file, message.line)];
      lanes.messages++;
      lanes.active += message.lanes;
    }
  });
}

int ends(void *context, const logdur_dispatch_result *result, char *error, std::size_t room) {
  return guarded(error, room, [&] {
    auto &self = *static_cast<Handler *>(context);
    std::string report = "dispatch " + std::to_string(result->dispatch) + "\n";
    for (const auto &place : self.dispatches[result->dispatch]) {
      const char *file = nullptr;
      if (self.host.source_file) file = self.host.source_file(self.host.context, result->dispatch, place.first.first);
      report += std::string("  ") + (file ? file : "?") + ":" + std::to_string(place.first.second) + ": " +
                std::to_string(place.second.messages) + " messages, " + std::to_string(place.second.active) +
                " active lanes\n";
    }
    self.dispatches.erase(result->dispatch);
    self.host.write(self.host.context, report.data(), report.size());
  });
}

void closed(void *context) { delete static_cast<Handler *>(context); }

} // namespace

const logdur_handler_table *logdur_handler(const char *name, std::uint32_t) {
  static const logdur_handler_table table = {
      sizeof table, LOGDUR_HANDLER_VERSION, opened, nullptr, messages, ends, closed,
  };
  return *name ? nullptr : &table;
}
