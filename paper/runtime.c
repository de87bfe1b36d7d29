// Kernels, streams, events and graphs of the CUDA runtime: registered, asked about, never run, always done.

#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>

#include "cuda_types.h"
#include "paper.h"

API const char* cudaGetErrorName(int code) { return code == kOutOfMemory ? "cudaErrorMemoryAllocation" : "paper"; }
API const char* cudaGetErrorString(int code) {
  if (code == kOutOfMemory) return "out of memory";
  if (code == 101) return "invalid device ordinal";
  return code == kSuccess ? "no error" : "a device on paper has no such error";
}

// ---- kernels -----------------------------------------------------------------------------------------------------------------

static void* a_handle;
API void** __cudaRegisterFatBinary(void* binary) { (void)binary; return &a_handle; }
API char __cudaInitModule(void** module) { (void)module; return 0; }
API int __cudaGetKernel(void** kernel, const void* function) { *kernel = (void*)function; return kSuccess; }
API unsigned __cudaPushCallConfiguration(void) { return 0; }
API int __cudaPopCallConfiguration(void) { return 0; }
API int cudaGetSymbolAddress(void** address, const void* symbol) {
  (void)symbol;
  *address = reserve(2097152, *current_device());  // a kernel's own variable: part of the module, in nobody's pool
  return kSuccess;
}

// Registers and static shared memory of a kernel are not read from its code: guessed, and with them occupancy.
API int cudaFuncGetAttributes(FunctionAttributes* a, const void* function) {
  (void)function;
  const DeviceKind* kind = device_kind();
  memset(a, 0, sizeof *a);
  a->maxThreadsPerBlock = 1024;
  a->numRegs = 32;
  a->ptxVersion = a->binaryVersion = kind->major * 10 + kind->minor;
  a->maxDynamicSharedSizeBytes = 49152;
  return kSuccess;
}
API int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int block, size_t shared) {
  (void)function;
  const DeviceKind* kind = device_kind();
  *blocks = kind->threads_per_multiprocessor / (block > 0 ? block : 1);
  if (*blocks > kind->blocks_per_multiprocessor) *blocks = kind->blocks_per_multiprocessor;
  if (shared && (size_t)*blocks > kind->shared_per_multiprocessor / shared) *blocks = (int)(kind->shared_per_multiprocessor / shared);
  if (*blocks < 1) *blocks = 1;
  return kSuccess;
}
API int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function, int block, size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, block, shared);
}

// ---- streams and events: each its own handle, always done --------------------------------------------------------------------

API int cudaStreamCreate(void** stream) { *stream = new_handle(); return kSuccess; }
API int cudaStreamCreateWithFlags(void** stream) { *stream = new_handle(); return kSuccess; }
API int cudaStreamCreateWithPriority(void** stream) { *stream = new_handle(); return kSuccess; }
API int cudaStreamGetPriority(void* stream, int* priority) { (void)stream; *priority = 0; return kSuccess; }
API int cudaStreamGetId(void* stream, unsigned long long* id) { *id = (unsigned long long)(uintptr_t)stream; return kSuccess; }
API int cudaEventCreate(void** event) { *event = new_handle(); return kSuccess; }
API int cudaEventCreateWithFlags(void** event) { *event = new_handle(); return kSuccess; }
// No time passes; who divides by one (autotuning) gets the same for every choice, and takes the first.
API int cudaEventElapsedTime(float* milliseconds) { *milliseconds = 10; return kSuccess; }
API int cudaEventElapsedTime_v2(float* milliseconds) { return cudaEventElapsedTime(milliseconds); }
API int cudaStreamAddCallback(void* stream, void (*call)(void*, int, void*), void* data) { call(stream, 0, data); return kSuccess; }
API int cudaLaunchHostFunc(void* stream, void (*call)(void*), void* data) { (void)stream; call(data); return kSuccess; }

// ---- graphs: what is captured is nothing, and a launch replays it ------------------------------------------------------------

enum { kMostCaptures = 32 };
static struct { void* stream; unsigned long long id; } captures[kMostCaptures];
static unsigned long long captured;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static unsigned long long capture_of(void* stream) {
  unsigned long long id = 0;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < kMostCaptures && !id; ++i)
    if (captures[i].id && captures[i].stream == stream) id = captures[i].id;
  pthread_mutex_unlock(&lock);
  return id;
}
API int cudaStreamBeginCapture(void* stream, int mode) {
  (void)mode;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < kMostCaptures; ++i)
    if (!captures[i].id) {
      captures[i].stream = stream;
      captures[i].id = ++captured;
      break;
    }
  pthread_mutex_unlock(&lock);
  return kSuccess;
}
API int cudaStreamEndCapture(void* stream, void** graph) {
  pthread_mutex_lock(&lock);
  for (int i = 0; i < kMostCaptures; ++i)
    if (captures[i].id && captures[i].stream == stream) captures[i].id = 0;
  pthread_mutex_unlock(&lock);
  *graph = new_handle();
  return kSuccess;
}
API int cudaStreamIsCapturing(void* stream, int* status) { *status = capture_of(stream) != 0; return kSuccess; }
API int cudaStreamGetCaptureInfo(void* stream, int* status, unsigned long long* id) {
  const unsigned long long found = capture_of(stream);
  *status = found != 0;
  if (id) *id = found;
  return kSuccess;
}
API int cudaStreamGetCaptureInfo_v2(void* stream, int* status, unsigned long long* id) {
  return cudaStreamGetCaptureInfo(stream, status, id);
}
API int cudaStreamGetCaptureInfo_v3(void* stream, int* status, unsigned long long* id) {
  return cudaStreamGetCaptureInfo(stream, status, id);
}
API int cudaThreadExchangeStreamCaptureMode(int* mode) { (void)mode; return kSuccess; }
API int cudaGraphInstantiate(void** made) { *made = new_handle(); return kSuccess; }
API int cudaGraphInstantiateWithFlags(void** made) { *made = new_handle(); return kSuccess; }
API int cudaGraphGetNodes(void* graph, void** nodes, size_t* count) {
  (void)graph;
  if (nodes && *count) nodes[0] = &a_handle;
  *count = 1;
  return kSuccess;
}

// ---- functions by name -------------------------------------------------------------------------------------------------------

API int cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version, unsigned long long flags, int* status) {
  (void)version; (void)flags;
  *function = answered(name);
  if (status) *status = 0;
  return kSuccess;
}
API int cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long flags, int* status) {
  return cudaGetDriverEntryPointByVersion(name, function, 0, flags, status);
}
