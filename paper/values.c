// Values: nothing is computed, so what a copy to the host brings is a substitute, and each is counted.
//
//   what the host sent stays readable      lists of lengths, grids, masks, flags; until another copy, a fill or (where the observer
//                                          tells of them) a new tensor takes the place
//   a value that somebody knows            paper_hold: "not a number anywhere?" is no; paper_count: what nonzero() finds
//   a single byte                          a truth value: true, so that `mask.all()` holds
//   all else                               zeros: a loss is finite
//
// A script of truth/ reads each host copy once (PAPER_KEEP_VALUES is not set): records stay what they were.

#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "paper.h"

enum { kMostHeld = 32768, kLargest = 4 << 20, kLargestOnce = 65536, kMostOnce = 64 };
enum { kHostCopy, kHeldValue, kKnownCount, kTrue, kZeros, kKinds };

typedef struct { const char* at; size_t bytes; char* data; int byte; unsigned age; } Held;  // data, or (null) `byte` everywhere
static Held held[kMostHeld];  // by address
static int held_count;
static unsigned age;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long long counts[kKinds], bytes_of_kind[kKinds];
static void (*listener)(int kind, size_t bytes);

static int keeps(void) {
  static int answer = -1;
  if (answer < 0) answer = (int)number_from_environment("PAPER_KEEP_VALUES", 0);
  return answer;
}

// The first that ends behind `address`.
static int first_behind(const char* address) {
  int low = 0, high = held_count;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (held[middle].at + held[middle].bytes <= address) low = middle + 1; else high = middle;
  }
  return low;
}

static void drop(int from, int to) {
  for (int i = from; i < to; ++i) free(held[i].data);
  memmove(held + from, held + to, (size_t)(held_count - to) * sizeof *held);
  held_count -= to - from;
}

static void forget_locked(const char* at, size_t bytes) {
  const int from = first_behind(at);
  int to = from;
  while (to < held_count && held[to].at < at + bytes) ++to;
  if (to > from) drop(from, to);
}

static void drop_oldest(void) {
  int oldest = 0;
  for (int i = 1; i < held_count; ++i)
    if (held[i].age < held[oldest].age) oldest = i;
  drop(oldest, oldest + 1);
}

static void hold_locked(const char* at, size_t bytes, const void* data, int byte) {
  forget_locked(at, bytes);
  if (!bytes || (data && bytes > (keeps() ? kLargest : kLargestOnce))) return;
  if (held_count == (keeps() ? kMostHeld : kMostOnce)) drop_oldest();
  const int to = first_behind(at);
  memmove(held + to + 1, held + to, (size_t)(held_count - to) * sizeof *held);
  held[to] = (Held){at, bytes, NULL, byte, ++age};
  if (data) memcpy(held[to].data = malloc(bytes), data, bytes);
  ++held_count;
}

// Whether all of it is held; then it is copied.
static int read_locked(char* to, const char* from, size_t bytes, int* kind) {
  const int found = first_behind(from);
  if (found == held_count || held[found].at > from || held[found].at + held[found].bytes < from + bytes) return 0;
  const Held* one = &held[found];
  if (!keeps() && (one->at != from || one->bytes != bytes)) return 0;
  if (one->data) memcpy(to, one->data + (from - one->at), bytes); else memset(to, one->byte, bytes);
  *kind = one->data ? kHostCopy : kHeldValue;
  if (!keeps()) drop(found, found + 1);
  return 1;
}

// Large targets on the host are seldom read: their pages are given back to be zero, not written.
static void zero(char* to, size_t bytes) {
  const uintptr_t page = 4096;
  if (bytes < (size_t)64 << 20) {
    memset(to, 0, bytes);
    return;
  }
  char* first = (char*)(((uintptr_t)to + page - 1) / page * page);
  char* last = (char*)(((uintptr_t)to + bytes) / page * page);
  memset(to, 0, (size_t)(first - to));
  memset(last, 0, (size_t)(to + bytes - last));
  if (madvise(first, (size_t)(last - first), MADV_DONTNEED)) memset(first, 0, (size_t)(last - first));
}

static int known_count;
API void paper_count(int count) { known_count = count; }
// How many of so many truth values are true, where they are known; -1: they are not.
API long long paper_true_among(const void* at, size_t count) {
  long long found = -1;
  char* known = malloc(count ? count : 1);
  int kind;
  pthread_mutex_lock(&lock);
  if (known && keeps() && read_locked(known, at, count, &kind)) {
    found = 0;
    for (size_t i = 0; i < count; ++i) found += known[i] != 0;
  }
  pthread_mutex_unlock(&lock);
  free(known);
  return found;
}
API void paper_hold(const void* at, size_t bytes, int byte) {
  pthread_mutex_lock(&lock);
  hold_locked(at, bytes, NULL, byte);
  pthread_mutex_unlock(&lock);
}
API void paper_forget(const void* at) {
  pthread_mutex_lock(&lock);
  forget_locked(at, 1);
  pthread_mutex_unlock(&lock);
}
API void paper_listen(void (*to)(int kind, size_t bytes)) { listener = to; }
API long long paper_substitutions(int kind, long long* bytes) {
  *bytes = bytes_of_kind[kind];
  return counts[kind];
}

static void brought(char* to, const char* from, size_t bytes) {
  int kind = kZeros;
  pthread_mutex_lock(&lock);
  if (!read_locked(to, from, bytes, &kind)) {
    if (known_count && (bytes == sizeof(int) || (keeps() && bytes == sizeof(long long)))) {
      const long long found = known_count;  // little end first: its first bytes are the same number
      memcpy(to, &found, bytes);
      kind = kKnownCount;
    } else if (bytes == 1) {
      *to = 1;
      kind = kTrue;
    } else {
      zero(to, bytes);
    }
  }
  ++counts[kind];
  bytes_of_kind[kind] += (long long)bytes;
  pthread_mutex_unlock(&lock);
  if (listener) listener(kind, bytes);
}

int copy(void* to, const void* from, size_t bytes) {
  if (!to || !from || !bytes) return kSuccess;
  const int there = device_of(to) >= 0, here = device_of(from) >= 0;
  if (there) {
    pthread_mutex_lock(&lock);
    if (!here) {
      hold_locked(to, bytes, from, 0);
    } else if (keeps()) {  // from the device to itself: what was known moves along
      char* known = bytes <= kLargest ? malloc(bytes) : NULL;
      int kind;
      if (known && read_locked(known, from, bytes, &kind)) hold_locked(to, bytes, known, 0); else forget_locked(to, bytes);
      free(known);
    }
    pthread_mutex_unlock(&lock);
  } else if (here) {
    brought(to, from, bytes);
  } else {
    memcpy(to, from, bytes);
  }
  return kSuccess;
}

void fill(void* at, int byte, size_t bytes) {
  if (device_of(at) < 0) {
    memset(at, byte, bytes);
  } else if (keeps()) {
    pthread_mutex_lock(&lock);
    hold_locked(at, bytes, NULL, byte);
    pthread_mutex_unlock(&lock);
  }
}

// ---- as CUDA's functions ---------------------------------------------------------------------------------------------------

API int cudaMemcpy(void* to, const void* from, size_t bytes, int kind) { (void)kind; return copy(to, from, bytes); }
API int cudaMemcpyAsync(void* to, const void* from, size_t bytes, int kind, void* stream) {
  (void)kind; (void)stream;
  return copy(to, from, bytes);
}
API int cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height) {
  for (size_t row = 0; row < height; ++row) copy((char*)to + row * to_pitch, (const char*)from + row * from_pitch, width);
  return kSuccess;
}
API int cudaMemcpyPeerAsync(void* to, int there, const void* from, int here, size_t bytes) {
  (void)there; (void)here;
  return copy(to, from, bytes);
}
API int cudaMemset(void* at, int byte, size_t bytes) { fill(at, byte, bytes); return kSuccess; }
API int cudaMemsetAsync(void* at, int byte, size_t bytes) { fill(at, byte, bytes); return kSuccess; }
API int cuMemcpyHtoD_v2(void* to, const void* from, size_t bytes) { return copy(to, from, bytes); }
API int cuMemcpyHtoDAsync_v2(void* to, const void* from, size_t bytes) { return copy(to, from, bytes); }
API int cuMemcpyDtoH_v2(void* to, const void* from, size_t bytes) { return copy(to, from, bytes); }
API int cuMemcpyDtoHAsync_v2(void* to, const void* from, size_t bytes) { return copy(to, from, bytes); }
API int cuMemcpyDtoD_v2(void* to, const void* from, size_t bytes) { return copy(to, from, bytes); }
API int cuMemcpyDtoDAsync_v2(void* to, const void* from, size_t bytes) { return copy(to, from, bytes); }
API int cuMemcpyAsync(void* to, const void* from, size_t bytes) { return copy(to, from, bytes); }
API int cuMemsetD8_v2(void* at, unsigned char byte, size_t bytes) { fill(at, byte, bytes); return kSuccess; }
API int cuMemsetD8Async(void* at, unsigned char byte, size_t bytes) { fill(at, byte, bytes); return kSuccess; }
