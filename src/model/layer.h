/* One transformer layer, pre-norm GPT form, forward and backward, as calls of a device:
       y   = x + (attention(norm(x)) W_output + b_output)        attention over qkv = norm(x) W_qkv + b_qkv
       out = y + (gelu(norm(y) W_up + b_up) W_down + b_down)
   n = microbatch_size * sequence tokens, h = hidden, f = ffn. */
#pragma once
#include "device/device.h"
#include "model/model.h"

/* What F keeps for B, of one layer and one microbatch: views into a slot. */
struct layer_saved {
    float *x;                 /* [n, h] the layer's input */
    float *mean_x, *rstd_x;   /* [n] */
    float *qkv;               /* [n, 3h] */
    float *maximum, *inverse; /* [microbatch_size, heads, sequence] */
    float *attention;         /* [n, h] */
    float *y;                 /* [n, h] */
    float *mean_y, *rstd_y;   /* [n] */
    float *u;                 /* [n, f] before the GELU */
};
/* Elements of one layer's saved tensors, and the views into memory of that size. */
size_t layer_saved_size(const struct model *model);
struct layer_saved layer_saved_view(const struct model *model, float *memory);

/* Scratch that every layer of a device uses in turn. */
struct layer_work {
    float *normed;  /* [n, h] norm(x) or norm(y) */
    float *g;       /* [n, f] gelu(u) */
    float *du;      /* [n, f] */
    float *dnormed; /* [n, h] gradient of norm's output, and of attention's */
    float *dy;      /* [n, h] */
    float *dqkv;    /* [n, 3h] */
    float *row_dot; /* [microbatch_size, heads, sequence] */
};
size_t layer_work_size(const struct model *model);
struct layer_work layer_work_view(const struct model *model, float *memory);

/* Fills *weights (parameters_size elements) with layer `layer`'s parameters, by global index: the same on any
 * device. */
void layer_parameters(struct device *device, const struct model *model, int layer, float *weights);

/* out [n, h] from saved->x, which the caller has filled; fills the rest of *saved. Where out is NULL the last
   product, which backward does not need, is left out. out must not be saved->x. */
void layer_forward(struct device *device, const struct model *model, const float *weights,
    const struct layer_saved *saved, const struct layer_work *work, float *out);

/* dx [n, h] from dout [n, h], and the parameters' gradients, which continue what is there where accumulate,
   else begin anew. dx may be dout. Uses work, and saved as forward left it. */
void layer_backward(struct device *device, const struct model *model, const float *weights, float *gradients,
    const struct layer_saved *saved, const struct layer_work *work, const float *dout, float *dx,
    bool accumulate);

/* Inputs or targets (purpose) of one microbatch of one step, [n, h]. */
void boundary_random(
    struct device *device, const struct model *model, uint32_t purpose, int step, int microbatch, float *x);

/* Floating-point operations of one layer for one microbatch, an FMA counted as two: products only. Forward: 2
   n (4 h^2 + 2 h f) for the GEMMs and 2 * 2 * h * s (s + 1) / 2 a sequence for the causal attention;
   backward: twice that. What is recomputed (scores, gelu, norms) and the row kernels are not counted: the
   usual model FLOPs. */
struct layer_flops {
    double forward, backward;
};
struct layer_flops layer_flops(const struct model *model);
