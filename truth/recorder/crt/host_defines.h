// What driver_types.h needs of the compiler's part of CUDA, which the runtime wheel leaves out: markers without meaning here.
#pragma once
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
#define __builtin_align__(n) __attribute__((aligned(n)))
#define __align__(n) __attribute__((aligned(n)))
#define CUDARTAPI
#define __host__
#define __device__
