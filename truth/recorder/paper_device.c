// A CUDA device on paper: the functions that PyTorch's CUDA build calls, without a device behind them.
//
//   PyTorch (its own CUDA build, unchanged)
//      |  cudaMalloc, cudaLaunchKernel, cudaEventQuery ...      cublasGemmEx ...       ncclAllReduce ...
//      v
//   this file: addresses are given and taken back, everything else succeeds at once and does nothing
//
// So everything that decides about memory is PyTorch's own code: its caching allocator, its autograd engine and threads, its
// streams, its operators' host side with their temporaries and workspaces, its choice of kernels by the device's properties.
// What a kernel would have computed is not there: a copy to the host gives zeros, and `true` for a single byte, so that
// `mask.all()` holds. Each function answers as an idle device would: work is done when it is asked for.
//
// Device memory is a range of addresses without pages. A host that reads it is wrong on a real device too, and stops here.
//
// Types come from the headers of the installed nvidia-cuda-runtime wheel; prototypes are left out on purpose.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <driver_types.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define API __attribute__((visibility("default")))
#define DOES_NOTHING(name) \
  API int name(void) { return 0; }

#include "paper_collectives.c"

// ---- the device: an H200, as its properties were read (compute 9.0, 132 multiprocessors) ------------------------------------

enum { kMultiprocessors = 132, kThreadsPerBlock = 1024, kThreadsPerMultiprocessor = 2048, kRegisters = 65536, kMajor = 9 };
static const size_t kSharedPerBlock = 49152, kSharedOptIn = 232448, kSharedPerMultiprocessor = 233472, kL2 = 62914560;

static size_t number_from_environment(const char* name, size_t otherwise) {
  const char* text = getenv(name);
  return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static size_t capacity(void) {
  static size_t bytes;
  if (!bytes) bytes = number_from_environment("PAPER_DEVICE_BYTES", (size_t)150023207649);
  return bytes;
}

// What is taken of the device beside PyTorch's allocator: by this process (its context, libraries) and by another one.
static size_t of_the_context(void) { return number_from_environment("PAPER_CONTEXT_BYTES", 0); }
static size_t of_a_communicator(void) { return number_from_environment("PAPER_COMMUNICATOR_BYTES", 0); }
API size_t paper_other_process_bytes(void) { return number_from_environment("PAPER_OTHER_PROCESS_BYTES", 0); }

static int devices(void) { return (int)number_from_environment("PAPER_DEVICES", 1); }

API int cudaGetDeviceProperties(struct cudaDeviceProp* p, int device) {
  memset(p, 0, sizeof *p);
  strcpy(p->name, "NVIDIA H200");
  p->uuid.bytes[0] = (char)(device + 1);
  p->totalGlobalMem = capacity();
  p->sharedMemPerBlock = kSharedPerBlock;
  p->regsPerBlock = kRegisters;
  p->warpSize = 32;
  p->memPitch = 2147483647;
  p->maxThreadsPerBlock = kThreadsPerBlock;
  p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
  p->maxThreadsDim[2] = 64;
  p->maxGridSize[0] = 2147483647;
  p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->totalConstMem = 65536;
  p->major = kMajor;
  p->minor = 0;
  p->textureAlignment = 512;
  p->texturePitchAlignment = 32;
  p->multiProcessorCount = kMultiprocessors;
  p->canMapHostMemory = 1;
  p->concurrentKernels = 1;
  p->asyncEngineCount = 3;
  p->unifiedAddressing = 1;
  p->memoryBusWidth = 6144;
  p->l2CacheSize = (int)kL2;
  p->maxThreadsPerMultiProcessor = kThreadsPerMultiprocessor;
  p->streamPrioritiesSupported = 1;
  p->globalL1CacheSupported = p->localL1CacheSupported = 1;
  p->sharedMemPerMultiprocessor = kSharedPerMultiprocessor;
  p->regsPerMultiprocessor = kRegisters;
  p->managedMemory = 1;
  p->cooperativeLaunch = 1;
  p->sharedMemPerBlockOptin = kSharedOptIn;
  p->maxBlocksPerMultiProcessor = 32;
  p->reservedSharedMemPerBlock = 1024;
  p->memoryPoolsSupported = 1;
  p->clusterLaunch = 1;
  return 0;
}
API int cudaGetDeviceProperties_v2(struct cudaDeviceProp* p, int device) { return cudaGetDeviceProperties(p, device); }

API int cudaDeviceGetAttribute(int* value, int attribute, int device) {
  (void)device;
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *value = kThreadsPerBlock; break;
    case cudaDevAttrMaxBlockDimX: case cudaDevAttrMaxBlockDimY: *value = 1024; break;
    case cudaDevAttrMaxBlockDimZ: *value = 64; break;
    case cudaDevAttrMaxGridDimX: *value = 2147483647; break;
    case cudaDevAttrMaxGridDimY: case cudaDevAttrMaxGridDimZ: *value = 65535; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = (int)kSharedPerBlock; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = (int)kSharedOptIn; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = (int)kSharedPerMultiprocessor; break;
    case cudaDevAttrReservedSharedMemoryPerBlock: *value = 1024; break;
    case cudaDevAttrTotalConstantMemory: *value = 65536; break;
    case cudaDevAttrWarpSize: *value = 32; break;
    case cudaDevAttrMaxRegistersPerBlock: case cudaDevAttrMaxRegistersPerMultiprocessor: *value = kRegisters; break;
    case cudaDevAttrMultiProcessorCount: *value = kMultiprocessors; break;
    case cudaDevAttrL2CacheSize: *value = (int)kL2; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = kThreadsPerMultiprocessor; break;
    case cudaDevAttrMaxBlocksPerMultiprocessor: *value = 32; break;
    case cudaDevAttrComputeCapabilityMajor: *value = kMajor; break;
    case cudaDevAttrConcurrentKernels: case cudaDevAttrUnifiedAddressing: case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrMemoryPoolsSupported: case cudaDevAttrStreamPrioritiesSupported: case cudaDevAttrClusterLaunch:
      *value = 1; break;
    default: *value = 0;
  }
  return 0;
}

static __thread int current_device;
API int cudaGetDeviceCount(int* count) { *count = devices(); return 0; }
API int cudaGetDevice(int* device) { *device = current_device; return 0; }
API int cudaSetDevice(int device) { current_device = device; return 0; }
API int cudaDriverGetVersion(int* version) { *version = 13000; return 0; }
API int cudaRuntimeGetVersion(int* version) { *version = 13000; return 0; }
API int cudaDeviceCanAccessPeer(int* can, int a, int b) { (void)a; (void)b; *can = 1; return 0; }
API int cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return 0;
}
API int cudaDeviceGetPCIBusId(char* text, int length, int device) {
  snprintf(text, (size_t)length, "0000:%02x:00.0", device + 1);
  return 0;
}
API const char* cudaGetErrorName(int code) { return code == 2 ? "cudaErrorMemoryAllocation" : "paper"; }
API const char* cudaGetErrorString(int code) { return code == 2 ? "out of memory" : "a device on paper has no such error"; }

// ---- memory: addresses are given and taken back ------------------------------------------------------------------------------

// The range is reserved once and no address is given twice: a stale one never looks alive.
static const size_t kRangeBytes = (size_t)1 << 45, kAlignment = 2097152;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *range, *next_address;
static size_t used, most_used;  // by this process without its context

API size_t paper_own_process_bytes(void) { return used + of_the_context() + paper_communicators * of_a_communicator(); }
static size_t free_bytes_now(void) {
  const size_t taken = paper_own_process_bytes() + paper_other_process_bytes();
  return taken < capacity() ? capacity() - taken : 0;
}

typedef struct Block { char* address; size_t bytes; struct Block* next; } Block;
static Block* table[65536];

static size_t slot_of(const void* address) { return ((uintptr_t)address / 512) % 65536; }

static int on_device(const void* address) {
  return range && (const char*)address >= range && (const char*)address < range + kRangeBytes;
}

static void* reserve(size_t bytes) {
  if (!range) {
    range = mmap(NULL, kRangeBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) abort();
    next_address = range = (char*)(((uintptr_t)range + kAlignment - 1) / kAlignment * kAlignment);
  }
  char* address = next_address;
  next_address += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return address;
}

API int cudaMalloc(void** address, size_t bytes) {
  pthread_mutex_lock(&lock);
  int full = bytes > free_bytes_now();
  if (!full) {
    Block* block = malloc(sizeof *block);
    block->address = reserve(bytes);
    block->bytes = bytes;
    block->next = table[slot_of(block->address)];
    table[slot_of(block->address)] = block;
    used += bytes;
    if (used > most_used) most_used = used;
    *address = block->address;
  }
  pthread_mutex_unlock(&lock);
  return full ? 2 : 0;
}

API int cudaFree(void* address) {
  pthread_mutex_lock(&lock);
  for (Block** at = &table[slot_of(address)]; *at; at = &(*at)->next)
    if ((*at)->address == address) {
      Block* gone = *at;
      *at = gone->next;
      used -= gone->bytes;
      free(gone);
      break;
    }
  pthread_mutex_unlock(&lock);
  return 0;
}
API int cudaMallocAsync(void** address, size_t bytes, void* stream) { (void)stream; return cudaMalloc(address, bytes); }
API int cudaFreeAsync(void* address, void* stream) { (void)stream; return cudaFree(address); }
API int cudaMemGetInfo(size_t* free_bytes, size_t* total) {
  *total = capacity();
  *free_bytes = free_bytes_now();
  return 0;
}
API size_t paper_device_used(void) { return used; }
API size_t paper_device_most_used(void) { return most_used; }

// Pinned memory of the host is the host's own, and says so when it is asked: DDP asserts that its map of used parameters is pinned.
typedef struct Pinned { char* address; size_t bytes; struct Pinned* next; } Pinned;
static Pinned* pinned;

API int cudaHostAlloc(void** address, size_t bytes, unsigned flags) {
  (void)flags;
  if (posix_memalign(address, 4096, bytes ? bytes : 1)) return 2;
  pthread_mutex_lock(&lock);
  Pinned* made = malloc(sizeof *made);
  *made = (Pinned){*address, bytes, pinned};
  pinned = made;
  pthread_mutex_unlock(&lock);
  return 0;
}
API int cudaFreeHost(void* address) {
  pthread_mutex_lock(&lock);
  for (Pinned** at = &pinned; *at; at = &(*at)->next)
    if ((*at)->address == address) {
      Pinned* gone = *at;
      *at = gone->next;
      free(gone);
      break;
    }
  pthread_mutex_unlock(&lock);
  free(address);
  return 0;
}

static int is_pinned(const char* address) {
  int found = 0;
  pthread_mutex_lock(&lock);
  for (Pinned* each = pinned; each && !found; each = each->next)
    found = address >= each->address && address < each->address + each->bytes;
  pthread_mutex_unlock(&lock);
  return found;
}

API int cudaPointerGetAttributes(struct cudaPointerAttributes* a, const void* address) {
  memset(a, 0, sizeof *a);
  if (on_device(address)) {
    a->type = cudaMemoryTypeDevice;
    a->devicePointer = (void*)address;
  } else if (is_pinned(address)) {
    a->type = cudaMemoryTypeHost;
    a->hostPointer = (void*)address;
  }
  return 0;
}

// What a kernel would have written is unknown, so a copy to the host is zeros; a single byte, a truth value, is true. What the
// host itself sent a moment ago comes back once: small tables that travel to the device for a broadcast and return.
enum { kSent = 64, kSentBytes = 65536 };
static struct { const void* address; size_t bytes; void* data; } sent[kSent];
static unsigned next_sent;

static void send(const void* to, const void* from, size_t bytes) {
  if (bytes > kSentBytes) return;
  pthread_mutex_lock(&lock);
  unsigned at = next_sent++ % kSent;
  free(sent[at].data);
  sent[at].address = to;
  sent[at].bytes = bytes;
  sent[at].data = malloc(bytes + 1);
  memcpy(sent[at].data, from, bytes);
  pthread_mutex_unlock(&lock);
}

static int came_back(void* to, const void* from, size_t bytes) {
  int found = 0;
  pthread_mutex_lock(&lock);
  for (unsigned back = 1; back <= kSent && !found; ++back) {
    unsigned at = (next_sent - back) % kSent;
    if (sent[at].data && sent[at].address == from && sent[at].bytes == bytes) {
      memcpy(to, sent[at].data, bytes);
      free(sent[at].data);
      sent[at].data = NULL;
      found = 1;
    }
  }
  pthread_mutex_unlock(&lock);
  return found;
}

// A count that a kernel would have found, where the script knows it of its data: what nonzero() copies to the host.
static int known_count;
API void paper_count(int count) { known_count = count; }

static int copy(void* to, const void* from, size_t bytes) {
  if (!to || !from || !bytes) return 0;
  if (on_device(to)) {
    if (!on_device(from)) send(to, from, bytes);
  } else if (on_device(from)) {
    if (came_back(to, from, bytes)) return 0;
    memset(to, bytes == 1, bytes);
    if (known_count && bytes == sizeof(int)) *(int*)to = known_count;
  } else {
    memcpy(to, from, bytes);
  }
  return 0;
}
API int cudaMemcpy(void* to, const void* from, size_t bytes, int kind) { (void)kind; return copy(to, from, bytes); }
API int cudaMemcpyAsync(void* to, const void* from, size_t bytes, int kind, void* stream) {
  (void)kind; (void)stream;
  return copy(to, from, bytes);
}
API int cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height) {
  for (size_t row = 0; row < height; ++row) copy((char*)to + row * to_pitch, (const char*)from + row * from_pitch, width);
  return 0;
}
API int cudaGetSymbolAddress(void** address, const void* symbol) {
  (void)symbol;
  pthread_mutex_lock(&lock);
  *address = reserve(kAlignment);  // a kernel's own variable: part of the module, in nobody's pool
  pthread_mutex_unlock(&lock);
  return 0;
}

// ---- kernels: registered, asked about, never run -----------------------------------------------------------------------------

static void* a_handle;
static void* new_handle(void) {
  static uintptr_t last = 0x1000;
  return (void*)__sync_add_and_fetch(&last, 16);
}
API void** __cudaRegisterFatBinary(void* binary) { (void)binary; return &a_handle; }
API char __cudaInitModule(void** module) { (void)module; return 0; }
API int __cudaGetKernel(void** kernel, const void* function) { *kernel = (void*)function; return 0; }
API unsigned __cudaPushCallConfiguration(void) { return 0; }
API int __cudaPopCallConfiguration(void) { return 0; }
API int cudaFuncGetAttributes(struct cudaFuncAttributes* a, const void* function) {
  (void)function;
  memset(a, 0, sizeof *a);
  a->maxThreadsPerBlock = kThreadsPerBlock;
  a->numRegs = 32;
  a->ptxVersion = a->binaryVersion = kMajor * 10;
  a->maxDynamicSharedSizeBytes = (int)kSharedPerBlock;
  return 0;
}
API int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int block, size_t shared) {
  (void)function;
  *blocks = kThreadsPerMultiprocessor / (block > 0 ? block : 1);
  if (*blocks > 32) *blocks = 32;
  if (shared && (size_t)*blocks > kSharedPerMultiprocessor / shared) *blocks = (int)(kSharedPerMultiprocessor / shared);
  if (*blocks < 1) *blocks = 1;
  return 0;
}
API int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function, int block, size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, block, shared);
}

// ---- streams and events: each its own handle, always done --------------------------------------------------------------------

API int cudaStreamCreate(void** stream) { *stream = new_handle(); return 0; }
API int cudaStreamCreateWithPriority(void** stream) { *stream = new_handle(); return 0; }
API int cudaStreamGetPriority(void* stream, int* priority) { (void)stream; *priority = 0; return 0; }
API int cudaStreamIsCapturing(void* stream, int* status) { (void)stream; *status = 0; return 0; }
API int cudaStreamGetCaptureInfo(void* stream, int* status, unsigned long long* id) {
  (void)stream;
  *status = 0;
  if (id) *id = 0;
  return 0;
}
API int cudaThreadExchangeStreamCaptureMode(int* mode) { (void)mode; return 0; }
API int cudaEventCreate(void** event) { *event = new_handle(); return 0; }
API int cudaEventCreateWithFlags(void** event) { *event = new_handle(); return 0; }
API int cudaEventElapsedTime(float* milliseconds) { *milliseconds = 0; return 0; }
API int cudaStreamAddCallback(void* stream, void (*call)(void*, int, void*), void* data) { call(stream, 0, data); return 0; }
API int cudaLaunchHostFunc(void* stream, void (*call)(void*), void* data) { (void)stream; call(data); return 0; }

// ---- the driver: PyTorch finds these by name, through the runtime or in libcuda.so.1, whose name this library bears -----------

API int cuGetErrorString(int code, const char** text) { (void)code; *text = "paper"; return 0; }
API int cuGetErrorName(int code, const char** text) { (void)code; *text = "paper"; return 0; }
API int cuDriverGetVersion(int* version) { *version = 13000; return 0; }
API int cuDeviceGet(int* device, int ordinal) { *device = ordinal; return 0; }
API int cuDeviceGetCount(int* count) { *count = devices(); return 0; }
API int cuDeviceGetAttribute(int* value, int attribute, int device) { return cudaDeviceGetAttribute(value, attribute, device); }
API int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  (void)device;
  *flags = 0;
  *active = 1;
  return 0;
}
API int cuDevicePrimaryCtxRetain(void** context) { *context = &a_handle; return 0; }
API int cuCtxGetCurrent(void** context) { *context = &a_handle; return 0; }
API int cuCtxGetDevice(int* device) { *device = current_device; return 0; }
API int cuModuleLoadData(void** module) { *module = new_handle(); return 0; }
API int cuModuleLoadDataEx(void** module) { *module = new_handle(); return 0; }
API int cuModuleGetFunction(void** function) { *function = new_handle(); return 0; }
API int cuFuncGetAttribute(int* value) { *value = 0; return 0; }
API int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* function, int block, size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, block, shared);
}

// Expandable segments: addresses first, memory behind them piece by piece.
typedef struct Piece { unsigned long long handle; size_t bytes; struct Piece* next; } Piece;
static Piece* pieces;
API int cuMemAddressReserve(uintptr_t* address, size_t bytes) {
  pthread_mutex_lock(&lock);
  *address = (uintptr_t)reserve(bytes);
  pthread_mutex_unlock(&lock);
  return 0;
}
API int cuMemCreate(unsigned long long* handle, size_t bytes) {
  pthread_mutex_lock(&lock);
  int full = bytes > free_bytes_now();
  if (!full) {
    Piece* piece = malloc(sizeof *piece);
    *piece = (Piece){(unsigned long long)(uintptr_t)new_handle(), bytes, pieces};
    pieces = piece;
    used += bytes;
    if (used > most_used) most_used = used;
    *handle = piece->handle;
  }
  pthread_mutex_unlock(&lock);
  return full ? 2 : 0;
}
API int cuMemRelease(unsigned long long handle) {
  pthread_mutex_lock(&lock);
  for (Piece** at = &pieces; *at; at = &(*at)->next)
    if ((*at)->handle == handle) {
      Piece* gone = *at;
      *at = gone->next;
      used -= gone->bytes;
      free(gone);
      break;
    }
  pthread_mutex_unlock(&lock);
  return 0;
}
API int cuMemGetAllocationGranularity(size_t* bytes) { *bytes = kAlignment; return 0; }

static int any_other_driver_function(void) { return 0; }
API int cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version, unsigned long long flags,
                                         int* status) {
  (void)version; (void)flags;
  *function = dlsym(RTLD_DEFAULT, name);
  if (!*function) *function = (void*)any_other_driver_function;
  if (status) *status = 0;
  return 0;
}

// ---- matrix products: handles and descriptors, one algorithm without a workspace of its own ----------------------------------

API int cublasCreate_v2(void** handle) { *handle = new_handle(); return 0; }
API int cublasGetMathMode(void* handle, int* mode) { (void)handle; *mode = 0; return 0; }
API int cublasGetPointerMode_v2(void* handle, int* mode) { (void)handle; *mode = 0; return 0; }
API int cublasGetVersion_v2(void* handle, int* version) { (void)handle; *version = 130000; return 0; }
API int cublasLtMatmulDescCreate(void** it) { *it = new_handle(); return 0; }
API int cublasLtMatrixLayoutCreate(void** it) { *it = new_handle(); return 0; }
API int cublasLtMatmulPreferenceCreate(void** it) { *it = new_handle(); return 0; }
API int cublasLtMatmulAlgoGetHeuristic(void* handle, void* operation, void* a, void* b, void* c, void* d, void* preference,
                                       int requested, void* results, int* returned) {
  (void)handle; (void)operation; (void)a; (void)b; (void)c; (void)d; (void)preference;
  memset(results, 0, 128 * (size_t)(requested > 0));
  *returned = requested > 0;
  return 0;
}

#include "paper_device_names.h"
