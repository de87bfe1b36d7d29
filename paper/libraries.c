// NVIDIA's libraries that PyTorch calls: handles and descriptors are given, products succeed and do nothing. NCCL is collectives.c.

#include <stddef.h>
#include <string.h>

#include "paper.h"

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
