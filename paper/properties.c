// Which device it is. Everything here is asked by code that chooses kernels and sizes temporaries by it.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_types.h"
#include "paper.h"

static const DeviceKind kKinds[] = {
#include "devices_table.h"
};

// One that every NVIDIA device has had since 2016.
enum { kThreadsPerBlock = 1024, kRegisters = 65536 };
static const size_t kSharedPerBlock = 49152;

const DeviceKind* device_kind(void) {
  static const DeviceKind* found;
  if (found) return found;
  const char* wanted = getenv("PAPER_DEVICE");
  if (!wanted || !*wanted) wanted = "h200-sxm";
  for (size_t i = 0; i < sizeof kKinds / sizeof *kKinds; ++i)
    if (!strcmp(kKinds[i].name, wanted)) return found = &kKinds[i];
  fprintf(stderr, "paper: %s is none of data/devices that CUDA drives\n", wanted);
  exit(2);
}

size_t number_from_environment(const char* name, size_t otherwise) {
  const char* text = getenv(name);
  return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

size_t capacity(void) {
  static size_t bytes;
  if (!bytes) bytes = number_from_environment("PAPER_DEVICE_BYTES", device_kind()->capacity);
  return bytes;
}

int devices(void) { return (int)number_from_environment("PAPER_DEVICES", 1); }

int* current_device(void) {
  static __thread int device;
  return &device;
}

// The two layouts have the same names for what is answered.
#define FILL(p)                                                                        \
  const DeviceKind* kind = device_kind();                                              \
  memset(p, 0, sizeof *p);                                                             \
  snprintf(p->name, sizeof p->name, "%s", kind->description);                          \
  p->uuid[0] = (char)(device + 1);                                                     \
  p->totalGlobalMem = capacity();                                                      \
  p->sharedMemPerBlock = kSharedPerBlock;                                              \
  p->regsPerBlock = p->regsPerMultiprocessor = kRegisters;                             \
  p->warpSize = 32;                                                                    \
  p->memPitch = 2147483647;                                                            \
  p->maxThreadsPerBlock = kThreadsPerBlock;                                            \
  p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;                                    \
  p->maxThreadsDim[2] = 64;                                                            \
  p->maxGridSize[0] = 2147483647;                                                      \
  p->maxGridSize[1] = p->maxGridSize[2] = 65535;                                       \
  p->totalConstMem = 65536;                                                            \
  p->major = kind->major;                                                              \
  p->minor = kind->minor;                                                              \
  p->textureAlignment = 512;                                                           \
  p->texturePitchAlignment = 32;                                                       \
  p->multiProcessorCount = kind->multiprocessors;                                      \
  p->canMapHostMemory = p->concurrentKernels = p->unifiedAddressing = 1;               \
  p->pciBusID = device + 1;                                                            \
  p->asyncEngineCount = 3;                                                             \
  p->memoryBusWidth = 6144;                                                            \
  p->l2CacheSize = (int)kind->l2;                                                      \
  p->maxThreadsPerMultiProcessor = kind->threads_per_multiprocessor;                   \
  p->streamPrioritiesSupported = p->globalL1CacheSupported = p->localL1CacheSupported = 1; \
  p->sharedMemPerMultiprocessor = kind->shared_per_multiprocessor;                     \
  p->managedMemory = p->cooperativeLaunch = p->memoryPoolsSupported = 1;               \
  p->sharedMemPerBlockOptin = kind->shared_opt_in;                                     \
  p->maxBlocksPerMultiProcessor = kind->blocks_per_multiprocessor;                     \
  p->reservedSharedMemPerBlock = kind->major >= 8 ? 1024 : 0;                          \
  p->clusterLaunch = kind->major >= 9;                                                 \
  return kSuccess;

// CUDA 12 calls the second, CUDA 13 the first.
API int cudaGetDeviceProperties(PropertiesOfCuda13* p, int device) { FILL(p) }
API int cudaGetDeviceProperties_v2(PropertiesOfCuda12* p, int device) { FILL(p) }

API int cudaDeviceGetAttribute(int* value, int attribute, int device) {
  const DeviceKind* kind = device_kind();
  switch (attribute) {
    case kMaxThreadsPerBlock: *value = kThreadsPerBlock; break;
    case kMaxBlockX: case kMaxBlockY: *value = 1024; break;
    case kMaxBlockZ: *value = 64; break;
    case kMaxGridX: *value = 2147483647; break;
    case kMaxGridY: case kMaxGridZ: *value = 65535; break;
    case kSharedPerBlockAt: *value = (int)kSharedPerBlock; break;
    case kSharedOptIn: *value = (int)kind->shared_opt_in; break;
    case kSharedPerMultiprocessorAt: *value = (int)kind->shared_per_multiprocessor; break;
    case kReservedShared: *value = kind->major >= 8 ? 1024 : 0; break;
    case kConstantMemory: *value = 65536; break;
    case kWarpSize: *value = 32; break;
    case kRegistersPerBlock: case kRegistersPerMultiprocessor: *value = kRegisters; break;
    // Rates are not answered from data: what asks for them (Inductor, Triton's models of time) divides by them.
    case kClockKilohertz: *value = 1500000; break;
    case kMemoryClockKilohertz: *value = 2600000; break;
    case kBusWidth: *value = 5120; break;
    case kMultiprocessorCount: *value = kind->multiprocessors; break;
    case kL2Bytes: *value = (int)kind->l2; break;
    case kThreadsPerMultiprocessorAt: *value = kind->threads_per_multiprocessor; break;
    case kBlocksPerMultiprocessor: *value = kind->blocks_per_multiprocessor; break;
    case kComputeMajor: *value = kind->major; break;
    case kComputeMinor: *value = kind->minor; break;
    case kPciBus: *value = device + 1; break;
    case kClusterLaunch: *value = kind->major >= 9; break;
    case kConcurrentKernels: case kUnifiedAddressing: case kCooperativeLaunch: case kMemoryPools: case kStreamPriorities:
    case kManagedMemory: case kVirtualAddresses:
      *value = 1; break;
    default: *value = 0;
  }
  return kSuccess;
}
API int cuDeviceGetAttribute(int* value, int attribute, int device) { return cudaDeviceGetAttribute(value, attribute, device); }

API int cudaGetDeviceCount(int* count) { *count = devices(); return kSuccess; }
API int cudaGetDevice(int* device) { *device = *current_device(); return kSuccess; }
API int cudaSetDevice(int device) {
  if (device < 0 || device >= devices()) return 101;  // cudaErrorInvalidDevice
  *current_device() = device;
  return kSuccess;
}
API int cudaDriverGetVersion(int* version) { *version = 13000; return kSuccess; }
API int cudaRuntimeGetVersion(int* version) { *version = 13000; return kSuccess; }
API int cudaDeviceCanAccessPeer(int* can, int a, int b) { *can = a != b; return kSuccess; }
API int cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return kSuccess;
}
API int cudaDeviceGetPCIBusId(char* text, int length, int device) {
  snprintf(text, (size_t)length, "0000:%02x:00.0", device + 1);
  return kSuccess;
}
API int cuDriverGetVersion(int* version) { *version = 13000; return kSuccess; }
API int cuDeviceGet(int* device, int ordinal) { *device = ordinal; return kSuccess; }
API int cuDeviceGetCount(int* count) { *count = devices(); return kSuccess; }
API int cuDeviceGetName(char* name, int length, int device) {
  (void)device;
  snprintf(name, (size_t)length, "%s", device_kind()->description);
  return kSuccess;
}
API int cuDeviceComputeCapability(int* major, int* minor, int device) {
  (void)device;
  *major = device_kind()->major;
  *minor = device_kind()->minor;
  return kSuccess;
}
API int cuDeviceTotalMem_v2(size_t* bytes, int device) { (void)device; *bytes = capacity(); return kSuccess; }
API int cuDeviceGetUuid(char* uuid, int device) {
  memset(uuid, 0, 16);
  uuid[0] = (char)(device + 1);
  return kSuccess;
}
API int cuDeviceGetUuid_v2(char* uuid, int device) { return cuDeviceGetUuid(uuid, device); }
