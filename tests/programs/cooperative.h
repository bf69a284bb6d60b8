// Cooperative groups, as `cg`.
#pragma once
#include <hip/hip_runtime.h>

// Names that the header below uses and that not every packaging of HIP 5.2 defines.
#ifndef hipBlockDim_x
#define hipBlockDim_x blockDim.x
#endif
#ifndef hipBlockDim_y
#define hipBlockDim_y blockDim.y
#endif
#ifndef hipBlockDim_z
#define hipBlockDim_z blockDim.z
#endif
#ifndef hipGridDim_x
#define hipGridDim_x gridDim.x
#endif
#ifndef hipGridDim_y
#define hipGridDim_y gridDim.y
#endif
#ifndef hipGridDim_z
#define hipGridDim_z gridDim.z
#endif
#ifndef hipBlockIdx_x
#define hipBlockIdx_x blockIdx.x
#endif
#ifndef hipBlockIdx_y
#define hipBlockIdx_y blockIdx.y
#endif
#ifndef hipBlockIdx_z
#define hipBlockIdx_z blockIdx.z
#endif
#ifndef hipThreadIdx_x
#define hipThreadIdx_x threadIdx.x
#endif
#ifndef hipThreadIdx_y
#define hipThreadIdx_y threadIdx.y
#endif
#ifndef hipThreadIdx_z
#define hipThreadIdx_z threadIdx.z
#endif
#include <hip/hip_cooperative_groups.h>

namespace cg = cooperative_groups;
