// NCCL on paper: a communicator of any size, and nothing is sent.
//
//   paper_device.c includes this file: no device, no ranks
//   paper.load_collectives() builds it alone: a real device, whose kernels run, as one rank of many that are not there
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#ifndef API
#define API __attribute__((visibility("default")))
#define DOES_NOTHING(name) \
  API int name(void) { return 0; }
#endif

static size_t paper_communicators;  // how many were made

typedef struct { int ranks, rank; } Communicator;
static int new_communicator(void** it, int ranks, int rank) {
  Communicator* made = malloc(sizeof *made);
  *made = (Communicator){ranks, rank};
  *it = made;
  __sync_fetch_and_add(&paper_communicators, 1);
  return 0;
}
typedef struct { char internal[128]; } UniqueId;
API int ncclGetVersion(int* version) { *version = 22800; return 0; }
API int ncclGetUniqueId(UniqueId* id) { memset(id, 1, sizeof *id); return 0; }
API int ncclCommInitRankConfig(void** it, int ranks, UniqueId id, int rank, void* config) {
  (void)id; (void)config;
  return new_communicator(it, ranks, rank);
}
API int ncclCommInitRank(void** it, int ranks, UniqueId id, int rank) { (void)id; return new_communicator(it, ranks, rank); }
API int ncclCommInitRankScalable(void** it, int ranks, int rank, int n, UniqueId* ids, void* config) {
  (void)n; (void)ids; (void)config;
  return new_communicator(it, ranks, rank);
}
API int ncclCommSplit(void* from, int color, int key, void** it, void* config) {
  (void)color; (void)key; (void)config;
  return new_communicator(it, ((Communicator*)from)->ranks, ((Communicator*)from)->rank);
}
API int ncclCommGetAsyncError(void* it, int* error) { (void)it; *error = 0; return 0; }
API int ncclCommCount(void* it, int* count) { *count = ((Communicator*)it)->ranks; return 0; }
API int ncclCommUserRank(void* it, int* rank) { *rank = ((Communicator*)it)->rank; return 0; }
// The runtime is loaded after this file where the device is a real one: it is looked for when it is needed.
API int ncclMemAlloc(void** address, size_t bytes) {
  int (*allocate)(void**, size_t) = (int (*)(void**, size_t))dlsym(RTLD_DEFAULT, "cudaMalloc");
  return allocate(address, bytes);
}
API int ncclMemFree(void* address) { return ((int (*)(void*))dlsym(RTLD_DEFAULT, "cudaFree"))(address); }
API const char* ncclGetErrorString(int code) { (void)code; return "paper"; }
API const char* ncclGetLastError(void* it) { (void)it; return "paper"; }

DOES_NOTHING(ncclAllGather)
DOES_NOTHING(ncclAllReduce)
DOES_NOTHING(ncclAlltoAll)
DOES_NOTHING(ncclBcast)
DOES_NOTHING(ncclBroadcast)
DOES_NOTHING(ncclCommAbort)
DOES_NOTHING(ncclCommDeregister)
DOES_NOTHING(ncclCommDestroy)
DOES_NOTHING(ncclCommFinalize)
DOES_NOTHING(ncclCommInitAll)
DOES_NOTHING(ncclCommRegister)
DOES_NOTHING(ncclCommShrink)
DOES_NOTHING(ncclCommWindowDeregister)
DOES_NOTHING(ncclCommWindowRegister)
DOES_NOTHING(ncclDevCommCreate)
DOES_NOTHING(ncclDevCommDestroy)
DOES_NOTHING(ncclGroupEnd)
DOES_NOTHING(ncclGroupSimulateEnd)
DOES_NOTHING(ncclGroupStart)
DOES_NOTHING(ncclRecv)
DOES_NOTHING(ncclRedOpCreatePreMulSum)
DOES_NOTHING(ncclRedOpDestroy)
DOES_NOTHING(ncclReduce)
DOES_NOTHING(ncclReduceScatter)
DOES_NOTHING(ncclSend)
