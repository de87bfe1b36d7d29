// NVIDIA's libraries that PyTorch calls: handles and descriptors are given, products and collectives succeed and do nothing.

#include <stdlib.h>
#include <string.h>

#include "paper.h"

int cudaMalloc(void** address, size_t bytes);
int cudaFree(void* address);

// ---- matrix products: one algorithm without a workspace of its own (PyTorch allocates cuBLAS's) ------------------------------

API int cublasCreate_v2(void** handle) { *handle = new_handle(); return kSuccess; }
API int cublasGetMathMode(void* handle, int* mode) { (void)handle; *mode = 0; return kSuccess; }
API int cublasGetPointerMode_v2(void* handle, int* mode) { (void)handle; *mode = 0; return kSuccess; }
API int cublasGetVersion_v2(void* handle, int* version) { (void)handle; *version = 130000; return kSuccess; }
API int cublasGetStream_v2(void* handle, void** stream) { (void)handle; *stream = NULL; return kSuccess; }
API int cublasLtCreate(void** handle) { *handle = new_handle(); return kSuccess; }
API int cublasLtMatmulDescCreate(void** it) { *it = new_handle(); return kSuccess; }
API int cublasLtMatrixLayoutCreate(void** it) { *it = new_handle(); return kSuccess; }
API int cublasLtMatmulPreferenceCreate(void** it) { *it = new_handle(); return kSuccess; }
API int cublasLtMatmulAlgoGetHeuristic(void* handle, void* operation, void* a, void* b, void* c, void* d, void* preference,
                                       int requested, void* results, int* returned) {
  (void)handle; (void)operation; (void)a; (void)b; (void)c; (void)d; (void)preference;
  memset(results, 0, 96 * (size_t)(requested > 0));  // the algorithm, its workspace, its state, waves and reserved words
  *returned = requested > 0;
  return kSuccess;
}

// ---- collectives: a communicator of any size, nothing is sent ----------------------------------------------------------------

typedef struct { int ranks, rank; } Communicator;
static int new_communicator(void** it, int ranks, int rank) {
  Communicator* made = malloc(sizeof *made);
  *made = (Communicator){ranks, rank};
  *it = made;
  communicator_made();
  return kSuccess;
}
typedef struct { char internal[128]; } UniqueId;
API int ncclGetVersion(int* version) { *version = 22800; return kSuccess; }
API int ncclGetUniqueId(UniqueId* id) { memset(id, 1, sizeof *id); return kSuccess; }
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
API int ncclCommGetAsyncError(void* it, int* error) { (void)it; *error = 0; return kSuccess; }
API int ncclCommCount(void* it, int* count) { *count = ((Communicator*)it)->ranks; return kSuccess; }
API int ncclCommUserRank(void* it, int* rank) { *rank = ((Communicator*)it)->rank; return kSuccess; }
API int ncclCommCuDevice(void* it, int* device) { (void)it; *device = *current_device(); return kSuccess; }
API int ncclMemAlloc(void** address, size_t bytes) { return cudaMalloc(address, bytes); }
API int ncclMemFree(void* address) { return cudaFree(address); }
API const char* ncclGetErrorString(int code) { (void)code; return "paper"; }
API const char* ncclGetLastError(void* it) { (void)it; return "paper"; }
