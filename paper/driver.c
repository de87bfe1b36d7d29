// The driver: PyTorch and Triton find these by name, through the runtime or in libcuda.so.1, whose name this library bears.

#include <string.h>

#include "cuda_types.h"
#include "paper.h"

int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int block, size_t shared);

static int a_context;
static __thread int has_context = 1;

API int cuGetErrorString(int code, const char** text) { *text = code == kSuccess ? "no error" : "paper"; return kSuccess; }
API int cuGetErrorName(int code, const char** text) { return cuGetErrorString(code, text); }
API int cuGetProcAddress_v2(const char* name, void** function, int version, unsigned long long flags, int* status) {
  (void)version; (void)flags;
  *function = answered(name);
  if (status) *status = 0;
  return kSuccess;
}
API int cuGetProcAddress(const char* name, void** function, int version, unsigned long long flags) {
  return cuGetProcAddress_v2(name, function, version, flags, NULL);
}

API int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  (void)device;
  *flags = 0;
  *active = 1;
  return kSuccess;
}
API int cuDevicePrimaryCtxRetain(void** context) { *context = &a_context; return kSuccess; }
API int cuCtxCreate_v2(void** context) { *context = &a_context; return kSuccess; }
API int cuCtxGetCurrent(void** context) { *context = has_context ? &a_context : NULL; return kSuccess; }
API int cuCtxGetDevice(int* device) { *device = *current_device(); return kSuccess; }
API int cuCtxGetApiVersion(void* context, unsigned* version) { (void)context; *version = 13000; return kSuccess; }

// Triton's and Inductor's kernels, compiled for the device: loaded as what they are not, and never run.
API int cuModuleLoad(void** module) { *module = new_handle(); return kSuccess; }
API int cuModuleLoadData(void** module) { *module = new_handle(); return kSuccess; }
API int cuModuleLoadDataEx(void** module) { *module = new_handle(); return kSuccess; }
API int cuModuleGetFunction(void** function) { *function = new_handle(); return kSuccess; }
API int cuModuleGetGlobal_v2(void** address, size_t* bytes) {
  *address = reserve(2097152, *current_device());
  if (bytes) *bytes = 8;
  return kSuccess;
}
API int cuLibraryLoadData(void** library) { *library = new_handle(); return kSuccess; }
API int cuLibraryGetKernel(void** kernel) { *kernel = new_handle(); return kSuccess; }
API int cuLibraryGetModule(void** module) { *module = new_handle(); return kSuccess; }
API int cuKernelGetFunction(void** function, void* kernel) { *function = kernel; return kSuccess; }
enum { kOfFunctionMaxThreads = 0, kOfFunctionRegisters = 4 };
API int cuFuncGetAttribute(int* value, int attribute) {
  *value = attribute == kOfFunctionMaxThreads ? 1024 : attribute == kOfFunctionRegisters ? 32 : 0;
  return kSuccess;
}
API int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* function, int block, size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, block, shared);
}
API int cuOccupancyMaxActiveClusters(int* clusters) { *clusters = 1; return kSuccess; }
API int cuStreamCreate(void** stream) { *stream = new_handle(); return kSuccess; }
API int cuEventCreate(void** event) { *event = new_handle(); return kSuccess; }
API int cuEventElapsedTime(float* milliseconds) { *milliseconds = 10; return kSuccess; }

API int cuPointerGetAttribute(void* value, int attribute, const void* address) {
  enum { kContext = 1, kMemoryType = 2, kDevicePointer = 3, kHostPointer = 4, kIsManaged = 8, kOrdinal = 9 };
  const int device = device_of(address);
  switch (attribute) {
    case kContext: *(void**)value = &a_context; break;
    case kMemoryType: *(unsigned*)value = device >= 0 ? 2 : 1; break;
    case kDevicePointer: case kHostPointer: *(const void**)value = address; break;
    case kIsManaged: *(unsigned*)value = 0; break;
    case kOrdinal: *(int*)value = device >= 0 ? device : 0; break;
    default: return 1;  // CUDA_ERROR_INVALID_VALUE
  }
  return kSuccess;
}
