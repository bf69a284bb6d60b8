// The host's side of logdur_device.h for programs that launch instrumented kernels themselves: descriptor, sub-buffers, a thread that
// empties them, and the messages. Written after the description of the format, not with the project's own reader.
#pragma once
#include <atomic>
#include <map>
#include <thread>

#include "check.h"
#include "logdur_device.h"

// A message as it is in a sub-buffer.
struct Received {
    unsigned long long exec, sizes, time, file;
    unsigned line, column, type, data;
    unsigned short block[3], place;
    unsigned char active, arch, padding[6];
    std::vector<unsigned> lane_headers, words;  // words of lane l: words[d * lanes + l]

    bool vector() const { return sizes >> 62 & 1; }
    unsigned lanes() const { return vector() ? active : 1; }
    unsigned word(unsigned lane, unsigned dword) const { return words[dword * lanes() + lane]; }
    unsigned long long address(unsigned lane) const { return word(lane, 0) | (unsigned long long)(word(lane, 1)) << 32; }
};

class Messages {
public:
    Messages(size_t sub_buffers, size_t capacity) {
        const auto coherent = hipHostMallocCoherent;
        CHECK(hipHostMalloc(&host_.buffer, sub_buffers * capacity, coherent));
        CHECK(hipHostMalloc(&host_.sizes, sub_buffers * sizeof(*host_.sizes), coherent));
        CHECK(hipHostMalloc(&host_.errors, sizeof(*host_.errors), coherent));
        CHECK(hipHostMalloc(&host_.full, sub_buffers, coherent));
        CHECK(hipMalloc(&host_.locks, sub_buffers));
        CHECK(hipMalloc(&device_, sizeof(host_)));
        host_.sub_buffers = sub_buffers;
        host_.capacity = capacity;
        std::memset(host_.sizes, 0, sub_buffers * sizeof(*host_.sizes));
        std::memset(host_.full, 0, sub_buffers);
        *host_.errors = 0;
        CHECK(hipMemset(host_.locks, 0, sub_buffers));
        CHECK(hipMemcpy(device_, &host_, sizeof(host_), hipMemcpyHostToDevice));
        CHECK(hipDeviceSynchronize());
        drain_ = std::thread([this] {
            while (!ended_) {
                for (size_t i = 0; i < host_.sub_buffers; ++i)
                    if (__atomic_load_n(&host_.full[i], __ATOMIC_ACQUIRE) == 1) {
                        ++stops_;
                        take(i);
                        __atomic_store_n(&host_.full[i], 0, __ATOMIC_RELEASE);
                    }
                std::this_thread::yield();
            }
        });
    }
    Messages(const Messages&) = delete;
    Messages& operator=(const Messages&) = delete;

    // The kernel's argument.
    void* descriptor() const { return device_; }

    // Waits for the kernels, and returns what they sent.
    std::vector<Received> all() {
        CHECK(hipGetLastError());
        CHECK(hipDeviceSynchronize());
        ended_ = true;
        drain_.join();
        for (size_t i = 0; i < host_.sub_buffers; ++i) {
            EXPECT(host_.full[i] == 0, "sub-buffer %zu is full after the kernel's end", i);
            take(i);
        }
        return parse();
    }
    // What all() has read, as the kernels wrote it.
    const std::vector<unsigned char>& bytes() const { return bytes_; }
    unsigned errors() const { return *host_.errors; }
    // How often a wave waited for the host.
    unsigned stops() const { return stops_; }

private:
    void take(size_t number) {
        size_t size = host_.sizes[number];
        EXPECT(size <= host_.capacity, "sub-buffer %zu has %zu bytes of %llu", number, size, host_.capacity);
        const unsigned char* start = host_.buffer + number * host_.capacity;
        bytes_.insert(bytes_.end(), start, start + size);
        host_.sizes[number] = 0;
    }
    std::vector<Received> parse() const {
        std::vector<Received> found;
        for (size_t at = 0; at < bytes_.size();) {
            Received message{};
            EXPECT(bytes_.size() - at >= 64, "%zu bytes at the end", bytes_.size() - at);
            std::memcpy(static_cast<void*>(&message), &bytes_[at], 64);
            at += 64;
            size_t size = message.sizes & ~(3ull << 62), headers = message.sizes >> 63 ? message.active : 0;
            EXPECT(size % 4 == 0 && size <= bytes_.size() - at && headers * 4 <= size, "a message of %zu bytes", size);
            EXPECT(message.active == __builtin_popcountll(message.exec), "%u lanes of %llx", message.active, message.exec);
            std::vector<unsigned> words(size / 4);
            if (size > 0) std::memcpy(words.data(), &bytes_[at], size);
            at += size;
            message.lane_headers.assign(words.begin(), words.begin() + headers);
            message.words.assign(words.begin() + headers, words.end());
            found.push_back(message);
        }
        return found;
    }

    logdur::Descriptor host_{};
    void* device_ = nullptr;
    std::thread drain_;
    std::atomic<bool> ended_{false};
    std::atomic<unsigned> stops_{0};
    std::vector<unsigned char> bytes_;
};
