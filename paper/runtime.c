// Kernels, streams, events and graphs of the CUDA runtime: registered, asked about, never run, always done.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "cuda_types.h"
#include "paper.h"

API const char* cudaGetErrorName(int code) { return code == kOutOfMemory ? "cudaErrorMemoryAllocation" : "paper"; }
API const char* cudaGetErrorString(int code) {
  if (code == kOutOfMemory) return "out of memory";
  if (code == 98 || code == 209) return "no kernel image is available for execution on the device";
  if (code == 101) return "invalid device ordinal";
  return code == kSuccess ? "no error" : "a device on paper has no such error";
}

// ---- kernels -----------------------------------------------------------------------------------------------------------------

static void* a_handle;

// Which of a library's kernels the device would run: of those that were compiled for its generation the newest that it can, as 8.6 on
// an 8.9; else what is compiled from PTX. CUB refuses to start where a kernel's version is none that it was compiled for.
typedef struct { const void* library; int version; } Compiled;
enum { kMostLibraries = 512 };
static Compiled compiled[kMostLibraries];
static int libraries;

static const void* library_of(const void* address) {
  Dl_info found;
  return dladdr(address, &found) ? found.dli_fbase : NULL;
}

// A fat binary is a header and entries, each with its kind, its sizes and the generation that it is for.
static int version_in(const char* data) {
  const DeviceKind* kind = device_kind();
  const int here = kind->major * 10 + kind->minor;
  uint32_t magic;
  memcpy(&magic, data, sizeof magic);
  if (magic != 0xBA55ED50) return 0;
  uint16_t header;
  uint64_t bytes;
  memcpy(&header, data + 6, sizeof header);
  memcpy(&bytes, data + 8, sizeof bytes);
  int of_code = 0, of_ptx = 0;
  for (const char *at = data + header, *end = at + bytes; at + 32 < end;) {
    uint16_t what;
    uint32_t head, version;
    uint64_t size;
    memcpy(&what, at, sizeof what);
    memcpy(&head, at + 4, sizeof head);
    memcpy(&size, at + 8, sizeof size);
    memcpy(&version, at + 28, sizeof version);
    const int of = (int)version;
    if (what == 2 && of / 10 == here / 10 && of <= here && of > of_code) of_code = of;
    if (what == 1 && of <= here && of > of_ptx) of_ptx = of;
    if (!head && !size) break;
    at += head + size;
  }
  return of_code ? of_code : of_ptx;
}

typedef struct { int magic, version; const char* data; void* file; } FatBinary;
API void** __cudaRegisterFatBinary(const FatBinary* binary) {
  const void* library = library_of(binary);
  if (library && libraries < kMostLibraries && (!libraries || compiled[libraries - 1].library != library)) {
    const int version = version_in(binary->data);
    if (version) compiled[libraries++] = (Compiled){library, version};
  }
  return &a_handle;
}

static int version_of(const void* function) {
  const void* library = library_of(function);
  for (int i = libraries - 1; library && i >= 0; --i)
    if (compiled[i].library == library) return compiled[i].version;
  return device_kind()->major * 10 + device_kind()->minor;
}
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
  memset(a, 0, sizeof *a);
  a->maxThreadsPerBlock = 1024;
  a->numRegs = 32;
  a->ptxVersion = a->binaryVersion = version_of(function);
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
