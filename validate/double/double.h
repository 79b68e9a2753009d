/* Gives CUDA C++ a meaning under an ordinary C++ compiler: included before a .cu file with -include. Each GPU
   thread is a fibre (grid.cpp), each stream a queue on the host (streams.cpp). What the kernels of this
   project use is here, and not more; what is missing does not compile. */
#pragma once
#include <cuda_runtime.h>
#include <cstring>
#include <memory>
#include <tuple>
#include <type_traits>

#if defined(__CUDACC__)
#error "double.h stands in for nvcc: it is no header for it"
#endif

/* ---- what the language adds ---- */
#undef __shared__
#undef __launch_bounds__
/* The marker tells kernel_table.cpp that the function's static variables are shared memory. */
#define __shared__                                                                                           \
    static char DOUBLE_NAME(double_shared_, __COUNTER__) __attribute__((used));                              \
    static __attribute__((aligned(8)))
#define DOUBLE_NAME(a, b) DOUBLE_NAME_(a, b)
#define DOUBLE_NAME_(a, b) a##b
#define __launch_bounds__(...)
#define DYNAMIC_SHARED(type, name) type *const name = reinterpret_cast<type *>(double_dynamic_shared)
#define LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                               \
    double_kernel(#kernel, kernel, grid, block, shared_bytes, stream)(__VA_ARGS__)

struct double_thread {
    uint3 index;
    unsigned lane, warp;
};
extern struct double_thread *double_self; /* the GPU thread that runs now, and its block */
extern uint3 double_block;
extern dim3 double_block_size, double_grid_size;
extern char *double_dynamic_shared;
#define threadIdx (double_self->index)
#define blockIdx double_block
#define blockDim double_block_size
#define gridDim double_grid_size
static const int warpSize = 32;

/* ---- launches ---- */
struct double_launch {
    const char *name;
    const void *kernel;
    dim3 grid, block;
    size_t shared_bytes;
    cudaStream_t stream;
};
struct double_body { /* what one GPU thread does: the kernel with its arguments */
    virtual void run() = 0;
    virtual ~double_body() = default;
};
void double_enqueue_grid(const double_launch &launch, std::unique_ptr<double_body> body);
/* Ends the process where the pointer, argument `number` of the kernel, is one that no GPU can follow. */
void double_check_argument(const double_launch &launch, int number, const void *pointer);

template <class... P> struct double_kernel {
    double_launch launch;
    void (*function)(P...);

    struct body final : double_body {
        void (*function)(P...);
        std::tuple<P...> arguments;
        body(void (*f)(P...), P... p) : function(f), arguments(p...) {}
        void run() override
        {
            std::apply(function, arguments);
        }
    };
    double_kernel(
        const char *name, void (*f)(P...), dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream)
        : launch{ name, reinterpret_cast<const void *>(f), grid, block, shared_bytes, stream }, function(f)
    {
    }
    template <class T> int check(int number, const T &argument) const
    {
        if constexpr (std::is_pointer_v<T>) double_check_argument(launch, number, argument);
        return number + 1;
    }
    void operator()(P... p) const
    {
        int number = 1;
        ((number = check(number, p)), ...);
        (void)number;
        double_enqueue_grid(launch, std::make_unique<body>(function, p...));
    }
};

/* The overloads that cuda_runtime.h has for nvcc only. */
template <class... P>
inline cudaError_t cudaFuncSetAttribute(void (*kernel)(P...), cudaFuncAttribute attribute, int value)
{
    return ::cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel), attribute, value);
}
template <class... P>
inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, void (*kernel)(P...))
{
    return ::cudaFuncGetAttributes(attributes, reinterpret_cast<const void *>(kernel));
}

/* ---- barriers, and exchanges within a warp ---- */
enum double_exchange_kind { DOUBLE_SYNCWARP, DOUBLE_SHUFFLE, DOUBLE_VOTE };
void double_barrier(const char *file, int line);
/* What lane `from` gave; lanes that have ended give all ones. */
unsigned long long double_exchange(double_exchange_kind kind, unsigned mask, unsigned long long value,
    unsigned from, const char *file, int line);
/* One bit for each lane that gave something other than 0 in the exchange just made. */
unsigned double_votes(void);
void double_fence(void);

#define DOUBLE_PLACE const char *file = __builtin_FILE(), int line = __builtin_LINE()

static inline void __syncthreads(DOUBLE_PLACE)
{
    double_barrier(file, line);
}
static inline void __syncwarp(unsigned mask = 0xffffffffu, DOUBLE_PLACE)
{
    double_exchange(DOUBLE_SYNCWARP, mask, 0, double_self->lane, file, line);
}
static inline void __threadfence()
{
    double_fence();
}
static inline void __threadfence_block()
{
    double_fence();
}
static inline void __threadfence_system()
{
    double_fence();
}

template <class T>
static inline T double_shuffle(unsigned mask, T value, unsigned from, const char *file, int line)
{
    static_assert(std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8),
        "shuffles move numbers of 4 or 8 bytes");
    unsigned long long bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = double_exchange(DOUBLE_SHUFFLE, mask, bits, from, file, line);
    memcpy(&value, &bits, sizeof value);
    return value;
}
/* Lanes outside the segment of `width` lanes give the thread its own value (PTX manual, shfl.sync). */
template <class T> static inline T __shfl_sync(unsigned mask, T value, int from, int width = 32, DOUBLE_PLACE)
{
    const unsigned w = (unsigned)width, first = double_self->lane & ~(w - 1);
    return double_shuffle(mask, value, first | ((unsigned)from & (w - 1)), file, line);
}
template <class T>
static inline T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, DOUBLE_PLACE)
{
    const unsigned lane = double_self->lane, last = lane | ((unsigned)width - 1),
                   from = lane ^ (unsigned)bits;
    return double_shuffle(mask, value, from <= last ? from : lane, file, line);
}
template <class T>
static inline T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32, DOUBLE_PLACE)
{
    const unsigned lane = double_self->lane, last = lane | ((unsigned)width - 1);
    return double_shuffle(mask, value, lane + by <= last ? lane + by : lane, file, line);
}
template <class T>
static inline T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32, DOUBLE_PLACE)
{
    const unsigned lane = double_self->lane, first = lane & ~((unsigned)width - 1);
    return double_shuffle(mask, value, lane >= first + by ? lane - by : lane, file, line);
}
static inline unsigned __ballot_sync(unsigned mask, int predicate, DOUBLE_PLACE)
{
    double_exchange(DOUBLE_VOTE, mask, predicate != 0, double_self->lane, file, line);
    return double_votes();
}
static inline int __any_sync(unsigned mask, int predicate, DOUBLE_PLACE)
{
    return __ballot_sync(mask, predicate, file, line) != 0;
}
static inline int __all_sync(unsigned mask, int predicate, DOUBLE_PLACE)
{
    return __ballot_sync(mask, !predicate, file, line) == 0;
}

#include "intrinsics.h"
