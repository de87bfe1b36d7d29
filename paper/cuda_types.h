// The few structures that callers of CUDA share with it, in both layouts that are in use: CUDA 12's and CUDA 13's, which dropped
// what CUDA 12 had marked as old. Written out here, so that the library needs no headers of a CUDA toolkit; the layouts are held
// against the real ones by truth/tests/test_paper.py.
#pragma once

#include <stddef.h>

// OLD(...) is there in CUDA 12 alone.
#define DEVICE_PROPERTIES(OLD, RESERVED)                                                                                       \
  char name[256], uuid[16], luid[8];                                                                                          \
  unsigned luidDeviceNodeMask;                                                                                                \
  size_t totalGlobalMem, sharedMemPerBlock;                                                                                   \
  int regsPerBlock, warpSize;                                                                                                 \
  size_t memPitch;                                                                                                            \
  int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3];                                                                   \
  OLD(int clockRate;)                                                                                                         \
  size_t totalConstMem;                                                                                                       \
  int major, minor;                                                                                                           \
  size_t textureAlignment, texturePitchAlignment;                                                                             \
  OLD(int deviceOverlap;)                                                                                                     \
  int multiProcessorCount;                                                                                                    \
  OLD(int kernelExecTimeoutEnabled;)                                                                                          \
  int integrated, canMapHostMemory;                                                                                           \
  OLD(int computeMode;)                                                                                                       \
  int maxTexture1D, maxTexture1DMipmap;                                                                                       \
  OLD(int maxTexture1DLinear;)                                                                                                \
  int textures_and_surfaces[37];                                                                                              \
  size_t surfaceAlignment;                                                                                                    \
  int concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver, asyncEngineCount, unifiedAddressing;      \
  OLD(int memoryClockRate;)                                                                                                   \
  int memoryBusWidth, l2CacheSize, persistingL2CacheMaxSize, maxThreadsPerMultiProcessor, streamPrioritiesSupported,          \
      globalL1CacheSupported, localL1CacheSupported;                                                                          \
  size_t sharedMemPerMultiprocessor;                                                                                          \
  int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, multiGpuBoardGroupID, hostNativeAtomicSupported;                 \
  OLD(int singleToDoublePrecisionPerfRatio;)                                                                                  \
  int pageableMemoryAccess, concurrentManagedAccess, computePreemptionSupported, canUseHostPointerForRegisteredMem,           \
      cooperativeLaunch;                                                                                                      \
  OLD(int cooperativeMultiDeviceLaunch;)                                                                                      \
  size_t sharedMemPerBlockOptin;                                                                                              \
  int pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost, maxBlocksPerMultiProcessor,                     \
      accessPolicyMaxWindowSize;                                                                                              \
  size_t reservedSharedMemPerBlock;                                                                                           \
  int hostRegisterSupported, sparseCudaArraySupported, hostRegisterReadOnlySupported, timelineSemaphoreInteropSupported,      \
      memoryPoolsSupported, gpuDirectRDMASupported;                                                                           \
  unsigned gpuDirectRDMAFlushWritesOptions;                                                                                   \
  int gpuDirectRDMAWritesOrdering;                                                                                            \
  unsigned memoryPoolSupportedHandleTypes;                                                                                    \
  int deferredMappingCudaArraySupported, ipcEventSupported, clusterLaunch, unifiedFunctionPointers, reserved[RESERVED];

#define IS_THERE(...) __VA_ARGS__
#define IS_GONE(...)
typedef struct { DEVICE_PROPERTIES(IS_THERE, 63) } PropertiesOfCuda12;
typedef struct { DEVICE_PROPERTIES(IS_GONE, 63) } PropertiesOfCuda13;

typedef struct {
  int type, device;
  void *devicePointer, *hostPointer;
} PointerAttributes;  // CUDA 13 has eight more words behind, which stay as the caller made them
enum { kOfHost = 1, kOfDevice = 2, kManaged = 3 };

typedef struct {
  size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
  int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, cacheModeCA, maxDynamicSharedSizeBytes, more[23];
} FunctionAttributes;

enum {  // cudaDeviceAttr and CUdevice_attribute, which are the same numbers
  kMaxThreadsPerBlock = 1, kMaxBlockX = 2, kMaxBlockY = 3, kMaxBlockZ = 4, kMaxGridX = 5, kMaxGridY = 6, kMaxGridZ = 7,
  kSharedPerBlockAt = 8, kConstantMemory = 9, kWarpSize = 10, kRegistersPerBlock = 12, kClockKilohertz = 13, kMultiprocessorCount = 16,
  kConcurrentKernels = 31, kPciBus = 33, kMemoryClockKilohertz = 36, kBusWidth = 37, kL2Bytes = 38, kThreadsPerMultiprocessorAt = 39,
  kUnifiedAddressing = 41, kComputeMajor = 75, kComputeMinor = 76, kStreamPriorities = 78, kSharedPerMultiprocessorAt = 81,
  kRegistersPerMultiprocessor = 82, kManagedMemory = 83, kCooperativeLaunch = 95, kSharedOptIn = 97, kVirtualAddresses = 102,
  kBlocksPerMultiprocessor = 106, kReservedShared = 111, kMemoryPools = 115, kClusterLaunch = 120
};
