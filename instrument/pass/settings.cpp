#include "settings.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace {

std::vector<std::string> split(const std::string& text, char separator) {
    std::vector<std::string> parts;
    std::istringstream stream(text);
    for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
    return parts;
}

bool number(const std::string& text, uint32_t& value) {
    if (text.empty() || text.size() > 9 || text.find_first_not_of("0123456789") != std::string::npos) return false;
    value = static_cast<uint32_t>(std::stoul(text));
    return true;
}

// `N`, or `N:M` without M.
bool range(const std::string& text, Range& range) {
    size_t colon = text.find(':');
    if (!number(text.substr(0, colon), range.first)) return false;
    if (colon == std::string::npos) {
        range.end = range.first + 1;
        return true;
    }
    return number(text.substr(colon + 1), range.end) && range.end > range.first;
}

// `FILE` or `FILE:N,N:M,…`
bool scope(const std::string& text, Scope& scope) {
    size_t colon = text.find(':');
    scope.file = text.substr(0, colon);
    if (scope.file.empty() || text.back() == ':' || text.back() == ',') return false;
    if (colon == std::string::npos) return true;
    for (const std::string& part : split(text.substr(colon + 1), ',')) {
        Range lines{};
        if (!range(part, lines)) return false;
        scope.lines.push_back(lines);
    }
    return true;
}

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

}  // namespace

bool Scope::has(const std::string& name, uint32_t line) const {
    bool tail = file[0] != '/' && name.size() > file.size() && name[name.size() - file.size() - 1] == '/' &&
                name.compare(name.size() - file.size(), file.size(), file) == 0;
    if (name != file && !tail) return false;
    bool found = lines.empty();
    for (const Range& range : lines) found |= range.first <= line && line < range.end;
    return found;
}

bool Settings::wants(const std::string& file, uint32_t line) const {
    bool found = scopes.empty();
    for (const Scope& scope : scopes) found |= scope.has(file, line);
    return found;
}

Settings Settings::read(std::string& error) {
    Settings settings;
    auto wrong = [&](const std::string& name, const std::string& found, const char* expected) {
        error = name + ": expected " + expected + ", found \"" + found + "\"";
    };
    auto add = [&](const std::string& name, const std::string& text) {
        Scope one;
        if (scope(text, one))
            settings.scopes.push_back(one);
        else
            wrong(name, text, "FILE or FILE:LINES, where LINES are N or N:M, separated by commas");
    };
    std::string kinds = variable("LOGDUR_INSTRUMENT");
    if (!kinds.empty()) settings.addresses = false;
    for (const std::string& kind : split(kinds, ',')) {
        if (kind == "addresses")
            settings.addresses = true;
        else if (kind == "blocks")
            settings.blocks = true;
        else if (kind == "intervals")
            settings.intervals = true;
        else
            wrong("LOGDUR_INSTRUMENT", kind, "addresses, blocks or intervals");
    }
    for (const std::string& text : split(variable("INSTRUMENTATION_SCOPE"), ';'))
        add("INSTRUMENTATION_SCOPE", text);
    std::string path = variable("INSTRUMENTATION_SCOPE_FILE");
    if (!path.empty()) {
        std::ifstream file(path);
        if (!file) wrong("INSTRUMENTATION_SCOPE_FILE", path, "a file that can be read");
        for (std::string line; std::getline(file, line);)
            if (!line.empty() && line[0] != '#') add(path, line);
    }
    for (int dimension = 0; dimension < 3; ++dimension) {
        std::string name = std::string("DH_COMMS_GROUP_FILTER_") + "XYZ"[dimension], text = variable(name.c_str());
        Range groups{};
        if (text.empty()) continue;
        if (range(text, groups))
            settings.groups[dimension] = groups;
        else
            wrong(name, text, "N or N:M with N < M");
    }
    return settings;
}
