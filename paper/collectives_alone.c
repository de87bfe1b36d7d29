// NCCL on paper beside a real device, whose kernels run: one process is one rank of many that are not there (collectives.c has the
// communicators, "collectives.def" the rows of answered.def that are NCCL's and only succeed).

#define _GNU_SOURCE
#include <dlfcn.h>

#include "paper.h"

// The runtime is loaded after this library: it is looked for when it is needed. Hidden, so that nobody else finds these.
int cudaMalloc(void** address, size_t bytes) {
  int (*allocate)(void**, size_t) = (int (*)(void**, size_t))dlsym(RTLD_DEFAULT, "cudaMalloc");
  return allocate(address, bytes);
}
int cudaFree(void* address) { return ((int (*)(void*))dlsym(RTLD_DEFAULT, "cudaFree"))(address); }

void communicator_made(void) {}
int* current_device(void) {
  static int first = 0;
  return &first;
}

#define SUCCEEDS(name) API int name(void) { return kSuccess; }
#include "collectives.def"
