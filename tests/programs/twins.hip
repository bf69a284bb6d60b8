// Runs the kernel `twin` of several code objects: of each when it is loaded, then of all of them.
#include "check.h"

int main(int argc, char** argv) {
    Array<unsigned> out(64);
    unsigned* address = out;
    void* arguments[] = {&address};
    std::vector<hipFunction_t> kernels;
    auto run = [&](size_t n) {
        CHECK(hipModuleLaunchKernel(kernels[n], 1, 1, 1, 64, 1, 1, 0, 0, arguments, nullptr));
        printf("%s%u", n ? " " : "", out.host()[0]);
    };
    for (int n = 1; n < argc; ++n) {
        hipModule_t module;
        CHECK(hipModuleLoad(&module, argv[n]));
        hipFunction_t kernel;
        CHECK(hipModuleGetFunction(&kernel, module, "twin"));
        kernels.push_back(kernel);
        run(kernels.size() - 1);
    }
    printf("\n");
    for (size_t n = 0; n < kernels.size(); ++n) run(n);
    printf("\n");
    printf("PASS\n");
    return 0;
}
