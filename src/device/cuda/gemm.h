/* The tiles of the portable product, for who wants one of them rather than the one that cuda_gemm chooses:
   tests, that visit each tile's edges, and the benchmark. Which tile a product is made with never shows in
   its bits. */
#pragma once
#include "device/cuda/kernels.h"

#if defined(__cplusplus)
extern "C" {
#endif

enum cuda_gemm_tile { CUDA_GEMM_LARGE, CUDA_GEMM_MEDIUM, CUDA_GEMM_SMALL, CUDA_GEMM_ANY, CUDA_GEMM_TILES };

/* "128x128" */
const char *cuda_gemm_tile_name(enum cuda_gemm_tile tile);
/* Whether the tile can make this product: all but CUDA_GEMM_ANY read four elements at a time, so they need
   rows of a multiple of four elements and addresses of 16 bytes. */
bool cuda_gemm_fits(enum cuda_gemm_tile tile, const struct gemm *gemm);
/* cuda_gemm with a tile that fits. */
void cuda_gemm_by(cudaStream_t stream, const struct gemm *gemm, enum cuda_gemm_tile tile);

#if defined(__cplusplus)
}
#endif
