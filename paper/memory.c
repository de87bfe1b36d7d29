// Memory: addresses are given and taken back. A range of addresses for each device, reserved once and without pages; none is given
// twice, so a stale one never looks alive.

#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cuda_types.h"
#include "paper.h"

enum { kMostDevices = 64 };
static const size_t kAlignment = 2097152;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
  char *range, *next;
  size_t range_bytes, used, most_used;
} devices_memory[kMostDevices];
static size_t communicators;  // how many NCCL has made

// What is taken of the device beside PyTorch's allocator: by this process (its context, communicators) and by another one.
static size_t beside(void) {
  return number_from_environment("PAPER_CONTEXT_BYTES", 0) +
         communicators * number_from_environment("PAPER_COMMUNICATOR_BYTES", 0);
}
API size_t paper_other_process_bytes(void) { return number_from_environment("PAPER_OTHER_PROCESS_BYTES", 0); }
API size_t paper_own_process_bytes(void) { return devices_memory[*current_device()].used + beside(); }
API size_t paper_device_used(void) { return devices_memory[*current_device()].used; }
API size_t paper_device_most_used(void) { return devices_memory[*current_device()].most_used; }
API size_t paper_communicators(void) { return communicators; }
void communicator_made(void) { __sync_fetch_and_add(&communicators, 1); }

size_t free_bytes_now(int device) {
  const size_t taken = devices_memory[device].used + beside() + paper_other_process_bytes();
  return taken < capacity() ? capacity() - taken : 0;
}

static int fits(size_t bytes, int device) { return bytes <= free_bytes_now(device); }
static void take(size_t bytes, int device) {
  devices_memory[device].used += bytes;
  if (devices_memory[device].used > devices_memory[device].most_used) devices_memory[device].most_used = devices_memory[device].used;
}

int device_of(const void* address) {
  for (int device = 0; device < kMostDevices; ++device) {
    const char* range = devices_memory[device].range;
    if (range && (const char*)address >= range && (const char*)address < range + devices_memory[device].range_bytes) return device;
  }
  return -1;
}

static void* reserve_locked(size_t bytes, int device) {
  if (!devices_memory[device].range) {
    // A process seldom uses more than one; where it does, later ones get what is left.
    for (size_t wanted = (size_t)1 << 45; wanted >= (size_t)1 << 38; wanted >>= 1) {
      char* range = mmap(NULL, wanted, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (range == MAP_FAILED) continue;
      devices_memory[device].range = devices_memory[device].next = (char*)(((uintptr_t)range + kAlignment - 1) / kAlignment * kAlignment);
      devices_memory[device].range_bytes = wanted - kAlignment;
      break;
    }
    if (!devices_memory[device].range) abort();
  }
  char* address = devices_memory[device].next;
  devices_memory[device].next += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return address;
}

void* reserve(size_t bytes, int device) {
  pthread_mutex_lock(&lock);
  void* address = reserve_locked(bytes, device);
  pthread_mutex_unlock(&lock);
  return address;
}

typedef struct Block { char* address; size_t bytes; int device; struct Block* next; } Block;
static Block* table[65536];
static size_t slot_of(const void* address) { return ((uintptr_t)address / 512) % 65536; }

int give(void** address, size_t bytes, int device) {
  pthread_mutex_lock(&lock);
  const int room = fits(bytes, device);
  if (room) {
    Block* block = malloc(sizeof *block);
    *block = (Block){reserve_locked(bytes, device), bytes, device, NULL};
    block->next = table[slot_of(block->address)];
    table[slot_of(block->address)] = block;
    take(bytes, device);
    *address = block->address;
  }
  pthread_mutex_unlock(&lock);
  return room ? kSuccess : kOutOfMemory;
}

void take_back(void* address) {
  pthread_mutex_lock(&lock);
  for (Block** at = &table[slot_of(address)]; *at; at = &(*at)->next)
    if ((*at)->address == address) {
      Block* gone = *at;
      *at = gone->next;
      devices_memory[gone->device].used -= gone->bytes;
      free(gone);
      break;
    }
  pthread_mutex_unlock(&lock);
}

typedef struct Piece { unsigned long long handle; size_t bytes; int device; struct Piece* next; } Piece;
static Piece* pieces;

int give_piece(unsigned long long* handle, size_t bytes, int device) {
  pthread_mutex_lock(&lock);
  const int room = fits(bytes, device);
  if (room) {
    Piece* piece = malloc(sizeof *piece);
    *piece = (Piece){(unsigned long long)(uintptr_t)new_handle(), bytes, device, pieces};
    pieces = piece;
    take(bytes, device);
    *handle = piece->handle;
  }
  pthread_mutex_unlock(&lock);
  return room ? kSuccess : kOutOfMemory;
}

void take_back_piece(unsigned long long handle) {
  pthread_mutex_lock(&lock);
  for (Piece** at = &pieces; *at; at = &(*at)->next)
    if ((*at)->handle == handle) {
      Piece* gone = *at;
      *at = gone->next;
      devices_memory[gone->device].used -= gone->bytes;
      free(gone);
      break;
    }
  pthread_mutex_unlock(&lock);
}

// Pinned memory of the host is the host's own, and says so when it is asked: DDP asserts that its map of used parameters is pinned.
typedef struct Pinned { char* address; size_t bytes; struct Pinned* next; } Pinned;
static Pinned* pinned;

int give_pinned(void** address, size_t bytes) {
  if (posix_memalign(address, 4096, bytes ? bytes : 1)) return kOutOfMemory;
  Pinned* made = malloc(sizeof *made);
  pthread_mutex_lock(&lock);
  *made = (Pinned){*address, bytes, pinned};
  pinned = made;
  pthread_mutex_unlock(&lock);
  return kSuccess;
}

void take_back_pinned(void* address) {
  Pinned* gone = NULL;
  pthread_mutex_lock(&lock);
  for (Pinned** at = &pinned; *at && !gone; at = gone ? at : &(*at)->next)
    if ((*at)->address == address) {
      gone = *at;
      *at = gone->next;
    }
  pthread_mutex_unlock(&lock);
  if (!gone) return;
  free(gone);
  free(address);
}

int is_pinned(const char* address) {
  int found = 0;
  pthread_mutex_lock(&lock);
  for (Pinned* each = pinned; each && !found; each = each->next)
    found = address >= each->address && address < each->address + each->bytes;
  pthread_mutex_unlock(&lock);
  return found;
}

// ---- as CUDA's functions ---------------------------------------------------------------------------------------------------

API int cudaMalloc(void** address, size_t bytes) { return give(address, bytes, *current_device()); }
API int cudaFree(void* address) { take_back(address); return kSuccess; }
API int cudaMallocAsync(void** address, size_t bytes, void* stream) { (void)stream; return cudaMalloc(address, bytes); }
API int cudaFreeAsync(void* address, void* stream) { (void)stream; return cudaFree(address); }
API int cudaMemGetInfo(size_t* free_bytes, size_t* total) {
  *total = capacity();
  *free_bytes = free_bytes_now(*current_device());
  return kSuccess;
}
API int cuMemGetInfo_v2(size_t* free_bytes, size_t* total) { return cudaMemGetInfo(free_bytes, total); }
API int cuMemAlloc_v2(void** address, size_t bytes) { return cudaMalloc(address, bytes); }
API int cuMemFree_v2(void* address) { return cudaFree(address); }
API int cudaHostAlloc(void** address, size_t bytes, unsigned flags) { (void)flags; return give_pinned(address, bytes); }
API int cudaMallocHost(void** address, size_t bytes) { return give_pinned(address, bytes); }
API int cudaFreeHost(void* address) { take_back_pinned(address); return kSuccess; }
API int cudaHostGetDevicePointer(void** there, void* here, unsigned flags) { (void)flags; *there = here; return kSuccess; }
// Pages that the host and the device share (bitsandbytes' paged optimizers) are the host's: they move, and are in no pool.
API int cudaMallocManaged(void** address, size_t bytes, unsigned flags) { (void)flags; return give_pinned(address, bytes); }

API int cudaPointerGetAttributes(PointerAttributes* a, const void* address) {
  memset(a, 0, sizeof *a);
  const int device = device_of(address);
  if (device >= 0) {
    a->type = kOfDevice;
    a->device = device;
    a->devicePointer = (void*)address;
  } else if (is_pinned(address)) {
    a->type = kOfHost;
    a->hostPointer = (void*)address;
  }
  return kSuccess;
}

// Expandable segments: addresses first, memory behind them piece by piece.
API int cuMemAddressReserve(uintptr_t* address, size_t bytes) {
  *address = (uintptr_t)reserve(bytes, *current_device());
  return kSuccess;
}
typedef struct { int type, handle_types, location_type, device; } PieceProperties;  // the first words of CUmemAllocationProp
API int cuMemCreate(unsigned long long* handle, size_t bytes, const PieceProperties* wanted) {
  const int device = wanted && wanted->device >= 0 && wanted->device < kMostDevices ? wanted->device : 0;
  return give_piece(handle, bytes, device);
}
API int cuMemRelease(unsigned long long handle) { take_back_piece(handle); return kSuccess; }
API int cuMemGetAllocationGranularity(size_t* bytes) { *bytes = kAlignment; return kSuccess; }
