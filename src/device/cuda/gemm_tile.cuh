/* What the portable product of a block of threads is made of: the shape of its tile of C, an operand's way
   from global to shared memory, and one step of k.

   A block makes ROWS by COLUMNS elements of C. Each thread keeps its share of them in registers, one chain
   each, and k advances through slices of DEPTH steps, which all threads copy to shared memory together.
   Elements beyond the edge of C are computed from copies of the last row or column and never stored. */
#pragma once
#include "device/arithmetic.h"
#include <cuda_runtime.h>
#include <stddef.h>

/* A thread has ROW_QUADS groups of four rows and COLUMN_QUADS groups of four columns, the groups spread
   evenly over the tile. A warp is 4 threads down by 8 across. RESIDENT: blocks that share an SM, which bounds
   the registers. */
template <int ROWS_, int COLUMNS_, int DEPTH_, int ROW_QUADS_, int COLUMN_QUADS_, int RESIDENT_>
struct tile_shape {
    static constexpr int ROWS = ROWS_, COLUMNS = COLUMNS_, DEPTH = DEPTH_;
    static constexpr int ROW_QUADS = ROW_QUADS_, COLUMN_QUADS = COLUMN_QUADS_;
    static constexpr int ROW_STRIDE = ROWS / ROW_QUADS, COLUMN_STRIDE = COLUMNS / COLUMN_QUADS;
    static constexpr int WARPS_DOWN = ROW_STRIDE / 16, WARPS_ACROSS = COLUMN_STRIDE / 32;
    static constexpr int THREADS = 32 * WARPS_DOWN * WARPS_ACROSS, RESIDENT = RESIDENT_;
    static constexpr int SLICE = DEPTH * (ROWS + COLUMNS); /* elements; two slices are in shared memory */
    static_assert(
        ROW_STRIDE % 32 == 0 && COLUMN_STRIDE % 32 == 0, "swizzled() moves lines within groups of 32");
    static_assert(DEPTH == 8 || DEPTH == 16 || DEPTH == 32, "swizzled() knows these");
};

/* Where line `line` of step k lies among the lines of that step. An operand whose rows run along k is read
   four steps at a time by neighbouring threads: a warp then stores DEPTH / 4 groups of steps by 128 / DEPTH
   lines, and these distances put its 32 words into 32 banks. Groups of four lines stay together. */
template <int DEPTH> __device__ static inline int swizzled(int k, int line)
{
    return line ^ (k / 4 % (DEPTH / 4) * (128 / DEPTH));
}

/* Four elements from or to an address of a multiple of 16 bytes, at once. */
__device__ static __forceinline__ void get_four(const float *x, float (&four)[4])
{
    const float4 v = *(const float4 *)x;
    four[0] = v.x, four[1] = v.y, four[2] = v.z, four[3] = v.w;
}

__device__ static __forceinline__ void put_four(float *x, const float (&four)[4])
{
    *(float4 *)x = make_float4(four[0], four[1], four[2], four[3]);
}

/* One operand's slices: LINES rows of A or columns of B. K_FASTEST: elements of a line, along k, are
   neighbours in memory; else elements of a step are. VECTOR: four neighbours are read at a time, which
   addresses and row lengths allow. */
template <int LINES, int DEPTH, int THREADS, bool K_FASTEST, bool VECTOR> struct operand_slice {
    static constexpr int WIDTH = VECTOR ? 4 : 1, PIECES = LINES * DEPTH / (THREADS * WIDTH);
    static_assert(LINES * DEPTH % (THREADS * WIDTH) == 0, "each thread copies as much as any other");

    const float *from[PIECES]; /* of the next slice */
    size_t step;               /* from one k to the next */
    float piece[PIECES][4];    /* the first WIDTH of each */

    /* operand: `lines` lines in all, its rows of row_length elements. The tile's lines begin with first_line;
       those beyond the edge are copies of the last. */
    __device__ __forceinline__ void begin(
        const float *operand, size_t row_length, size_t lines, size_t first_line)
    {
        const size_t most = lines - first_line < LINES ? lines - first_line : LINES;
        const int last = (int)most - (K_FASTEST ? 1 : WIDTH);
        step = K_FASTEST ? 1 : row_length;
#pragma unroll
        for (int i = 0; i < PIECES; i++) {
            const size_t line = first_line + (piece_line(i) < last ? piece_line(i) : last);
            from[i] = operand + line * (K_FASTEST ? row_length : 1) + piece_k(i) * step;
        }
    }

    __device__ static __forceinline__ int piece_k(int i)
    {
        const int at = (int)threadIdx.x + i * THREADS;
        return K_FASTEST ? at % (DEPTH / WIDTH) * WIDTH : at / (LINES / WIDTH);
    }

    __device__ static __forceinline__ int piece_line(int i)
    {
        const int at = (int)threadIdx.x + i * THREADS;
        return K_FASTEST ? at / (DEPTH / WIDTH) : at % (LINES / WIDTH) * WIDTH;
    }

    __device__ __forceinline__ void load_piece(int i, const float *x)
    {
        if (VECTOR)
            get_four(x, piece[i]);
        else
            piece[i][0] = *x;
    }

    /* From global memory to registers: a slice. */
    __device__ __forceinline__ void load(void)
    {
#pragma unroll
        for (int i = 0; i < PIECES; i++) {
            load_piece(i, from[i]);
            from[i] += DEPTH * step;
        }
    }

    /* A slice of fewer steps, 1 .. DEPTH. What it lacks is filled with copies of its last step, which nothing
       is computed with. */
    __device__ __forceinline__ void load_short(int steps)
    {
        const int last = steps - (K_FASTEST ? WIDTH : 1);
#pragma unroll
        for (int i = 0; i < PIECES; i++) {
            const int beyond = piece_k(i) > last ? piece_k(i) - last : 0;
            load_piece(i, from[i] - beyond * step);
            from[i] += steps * step;
        }
    }

    /* From registers to shared memory, [DEPTH][LINES]. */
    __device__ __forceinline__ void store(float *slice) const
    {
#pragma unroll
        for (int i = 0; i < PIECES; i++) {
            float *to = slice + piece_k(i) * LINES + swizzled<DEPTH>(piece_k(i), piece_line(i));
            if (VECTOR && !K_FASTEST) {
                put_four(to, piece[i]);
            } else {
#pragma unroll
                for (int e = 0; e < WIDTH; e++) to[e * LINES] = piece[i][e];
            }
        }
    }
};

/* A thread's first row and column within its tile. Lanes are laid out so that those at distance 1 share rows
   and those at distance 2 share columns: then both of the 16-byte reads of shared memory serve half a warp at
   once. */
template <class T> __device__ static inline int thread_row(unsigned thread)
{
    const int lane = thread % 32, warp = thread / 32;
    return warp / T::WARPS_ACROSS * 16 + ((lane >> 1 & 1) | (lane >> 2 & 2)) * 4;
}

template <class T> __device__ static inline int thread_column(unsigned thread)
{
    const int lane = thread % 32, warp = thread / 32;
    return warp % T::WARPS_ACROSS * 32 + ((lane & 1) | (lane >> 1 & 2) | (lane >> 2 & 4)) * 4;
}

/* Step k of a slice: one fma for each of the thread's elements, sum[row][quad of columns][column]. */
template <class T>
__device__ static __forceinline__ void multiply_step(
    const float *slice, int k, int row, int column, float (&sum)[T::ROW_QUADS * 4][T::COLUMN_QUADS][4])
{
    const float *rows = slice + k * T::ROWS + swizzled<T::DEPTH>(k, row);
    const float *columns = slice + T::DEPTH * T::ROWS + k * T::COLUMNS + swizzled<T::DEPTH>(k, column);
    float a[T::ROW_QUADS][4], b[T::COLUMN_QUADS][4];
#pragma unroll
    for (int q = 0; q < T::ROW_QUADS; q++) get_four(&rows[q * T::ROW_STRIDE], a[q]);
#pragma unroll
    for (int q = 0; q < T::COLUMN_QUADS; q++) get_four(&columns[q * T::COLUMN_STRIDE], b[q]);
#pragma unroll
    for (int i = 0; i < T::ROW_QUADS * 4; i++)
#pragma unroll
        for (int j = 0; j < T::COLUMN_QUADS * 4; j++)
            sum[i][j / 4][j % 4] = pl_fma(a[i / 4][i % 4], b[j / 4][j % 4], sum[i][j / 4][j % 4]);
}
