// What the pass is asked for, by environment variables of the compiler. docs/instrument-kernels.md describes them.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// Numbers in `first <= number < end`.
struct Range {
    uint32_t first, end;
};

// A file, and lines of it; no lines mean all.
struct Scope {
    std::string file;  // from '/' on: the whole name; else its last parts
    std::vector<Range> lines;

    bool has(const std::string& name, uint32_t line) const;
};

struct Settings {
    bool addresses = true, blocks = false, intervals = false;
    std::vector<Scope> scopes;
    std::optional<Range> groups[3];

    // From the environment. `error` says what is wrong with it.
    static Settings read(std::string& error);
    // True for a place in the scopes, and everywhere if there are none.
    bool wants(const std::string& file, uint32_t line) const;
};
