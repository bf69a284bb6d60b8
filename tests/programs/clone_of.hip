// A kernel of any code object and its clone, on the same memory: OBJECT MESSAGES KERNEL GX GY GZ THREADS LDS ARGUMENT... An argument is
// `buffer:FILE`, memory with the contents of a file, or `value:HEX`, its bytes. Both must compute the same. What the clone sends is
// written to MESSAGES.
#include <fstream>
#include <iterator>
#include <string>

#include "messages.h"

static std::vector<unsigned char> contents(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    EXPECT(file, "%s cannot be read", path.c_str());
    return std::vector<unsigned char>(std::istreambuf_iterator<char>(file), {});
}

struct Argument {
    std::vector<unsigned char> bytes;  // of the buffer, or of the value
    void* buffer = nullptr;

    explicit Argument(const std::string& text) {
        std::string rest = text.substr(text.find(':') + 1);
        if (text.compare(0, 7, "buffer:") == 0) {
            bytes = contents(rest);
            CHECK(hipMalloc(&buffer, bytes.size()));
            std::printf("array %llx %llx\n", (unsigned long long)buffer, (unsigned long long)buffer + bytes.size());
        } else {
            for (size_t i = 0; i < rest.size(); i += 2) bytes.push_back(std::stoul(rest.substr(i, 2), nullptr, 16));
        }
    }
};

int main(int count, char** words) {
    EXPECT(count > 8, "expected OBJECT MESSAGES KERNEL GX GY GZ THREADS LDS ARGUMENT...");
    const std::string kernel = words[3];
    const dim3 grid(std::stoi(words[4]), std::stoi(words[5]), std::stoi(words[6]));
    const int threads = std::stoi(words[7]), lds = std::stoi(words[8]);
    std::vector<Argument> arguments(words + 9, words + count);
    hipModule_t object;
    CHECK(hipModuleLoad(&object, words[1]));
    Messages messages(5, 8192);
    void* descriptor = messages.descriptor();
    std::vector<void*> parameters;
    for (Argument& argument : arguments) parameters.push_back(argument.buffer ? (void*)&argument.buffer : (void*)argument.bytes.data());
    parameters.push_back(&descriptor);
    std::vector<std::vector<unsigned char>> results[2];
    for (int cloned = 0; cloned < 2; ++cloned) {
        for (Argument& argument : arguments)
            if (argument.buffer) CHECK(hipMemcpy(argument.buffer, argument.bytes.data(), argument.bytes.size(), hipMemcpyHostToDevice));
        hipFunction_t function;
        CHECK(hipModuleGetFunction(&function, object, (cloned ? "__amd_crk_" + kernel + "Pv" : kernel).c_str()));
        CHECK(hipModuleLaunchKernel(function, grid.x, grid.y, grid.z, threads, 1, 1, lds, nullptr, parameters.data(), nullptr));
        CHECK(hipDeviceSynchronize());
        for (Argument& argument : arguments) {
            if (!argument.buffer) continue;
            results[cloned].emplace_back(argument.bytes.size());
            CHECK(hipMemcpy(results[cloned].back().data(), argument.buffer, argument.bytes.size(), hipMemcpyDeviceToHost));
        }
    }
    EXPECT(results[0] == results[1], "the clone computes something else");
    std::printf("%zu messages\n", messages.all().size());
    EXPECT(messages.errors() == 0, "errors %x", messages.errors());
    std::ofstream(words[2], std::ios::binary).write(reinterpret_cast<const char*>(messages.bytes().data()), messages.bytes().size());
    std::puts("PASS");
}
