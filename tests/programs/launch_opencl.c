// Launches kernels of an OpenCL C source on the machine's CPU, as a description says: launches.h. The reference for the
// same source on a GPU.
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include "launches.h"

#define CL(call)                                                      \
    do {                                                              \
        cl_int status_ = (call);                                      \
        if (status_ != CL_SUCCESS) {                                  \
            printf("FAIL %s: OpenCL error %d\n", #call, status_);     \
            exit(1);                                                  \
        }                                                             \
    } while (0)

static cl_device_id find_cpu(void) {
    cl_platform_id platforms[16];
    cl_uint count = 0;
    CL(clGetPlatformIDs(16, platforms, &count));
    for (cl_uint i = 0; i < count && i < 16; ++i) {
        cl_device_id device;
        if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_CPU, 1, &device, NULL) == CL_SUCCESS) return device;
    }
    refuse("no OpenCL device", "CPU");
    return NULL;
}

static cl_program build(cl_context context, cl_device_id device, const char* path, const char* options) {
    FILE* file = fopen(path, "rb");
    if (!file) refuse("cannot be read", path);
    static char text[1 << 20];
    size_t size = fread(text, 1, sizeof text, file);
    fclose(file);
    const char* source = text;
    cl_int status;
    cl_program program = clCreateProgramWithSource(context, 1, &source, &size, &status);
    CL(status);
    status = clBuildProgram(program, 1, &device, options, NULL, NULL);
    if (status != CL_SUCCESS) {
        static char log[1 << 16];
        clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof log - 1, log, NULL);
        printf("%s\n", log);
        refuse("does not compile", path);
    }
    return program;
}

static void run(cl_context context, cl_command_queue queue, cl_program program, struct launch* launch) {
    cl_int status;
    cl_kernel kernel = clCreateKernel(program, launch->kernel, &status);
    if (status != CL_SUCCESS) refuse("no such kernel", launch->kernel);
    cl_mem memory[MOST];
    for (int i = 0; i < launch->buffers; ++i) {
        struct bytes* buffer = &launch->buffer[i];
        memory[i] = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, buffer->size, buffer->data, &status);
        CL(status);
    }
    for (int i = 0; i < launch->arguments; ++i) {
        struct argument* argument = &launch->argument[i];
        switch (argument->kind) {
            case VALUE: CL(clSetKernelArg(kernel, (cl_uint)i, argument->value.size, argument->value.data)); break;
            case LOCAL: CL(clSetKernelArg(kernel, (cl_uint)i, argument->number, NULL)); break;
            case POINTER:
                if (argument->number >= (size_t)launch->buffers) refuse("no such buffer", launch->kernel);
                CL(clSetKernelArg(kernel, (cl_uint)i, sizeof(cl_mem), &memory[argument->number]));
        }
    }
    size_t grid[3], workgroup[3];
    for (int i = 0; i < 3; ++i) grid[i] = launch->grid[i], workgroup[i] = launch->workgroup[i];
    CL(clEnqueueNDRangeKernel(queue, kernel, launch->dimensions, NULL, grid, workgroup, 0, NULL, NULL));
    for (int i = 0; i < launch->buffers; ++i) {
        struct bytes* buffer = &launch->buffer[i];
        CL(clEnqueueReadBuffer(queue, memory[i], CL_TRUE, 0, buffer->size, buffer->data, 0, NULL, NULL));
        write_bytes(buffer);
        CL(clReleaseMemObject(memory[i]));
    }
    CL(clReleaseKernel(kernel));
    printf("launched %s\n", launch->kernel);
}

int main(int argc, char** argv) {
    if (argc != 4) refuse("usage", "launch_opencl DESCRIPTION SOURCE OPTIONS");
    FILE* description = fopen(argv[1], "r");
    if (!description) refuse("cannot be read", argv[1]);
    cl_device_id device = find_cpu();
    cl_int status;
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
    CL(status);
    cl_command_queue queue = clCreateCommandQueueWithProperties(context, device, NULL, &status);
    CL(status);
    cl_program program = build(context, device, argv[2], argv[3]);
    static struct launch launch;
    while (next_launch(description, &launch)) run(context, queue, program, &launch);
    printf("PASS\n");
    return 0;
}
