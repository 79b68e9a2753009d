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

/* What the two halves of backward hand over: I writes it, W reads it. */
struct layer_kept {
    float *dout;      /* [n, h] gradient of the layer's output; not used by backward in one piece */
    float *du;        /* [n, f] */
    float *dnormed_y; /* [n, h] gradient of norm(y) */
    float *dy;        /* [n, h] */
    float *dqkv;      /* [n, 3h] */
    float *dnormed_x; /* [n, h] gradient of norm(x), and before that of attention's output */
};
/* Elements of what lies between a layer's I and its W, and the views into memory of that size: in a slot. */
size_t layer_kept_size(const struct model *model);
struct layer_kept layer_kept_view(const struct model *model, float *memory);

/* Scratch that every layer of a device uses in turn. Where backward is never split (`splits` false) it holds
   what the halves hand over too, dnormed_x in the place of dnormed_y and no dout: the one is done with before
   the other begins. */
struct layer_work {
    float *normed;  /* [n, h] norm(x) or norm(y) */
    float *g;       /* [n, f] gelu(u) */
    float *row_dot; /* [microbatch_size, heads, sequence] */
    struct layer_kept kept;
};
size_t layer_work_size(const struct model *model, bool splits);
struct layer_work layer_work_view(const struct model *model, bool splits, float *memory);

/* A layer's parameters, and what products read in their place: of the device's making (operand_make), or NULL
 * where they read the parameters. */
struct layer_weights {
    float *values;  /* [parameters_size] */
    void *operands; /* operands_bytes */
};

/* Fills *weights with layer `layer`'s parameters, by global index: the same on any device; and makes the
 * operands. */
void layer_parameters(
    struct device *device, const struct model *model, int layer, const struct layer_weights *weights);

/* out [n, h] from saved->x, which the caller has filled; fills the rest of *saved. Where out is NULL the last
   product, which backward does not need, is left out. out must not be saved->x. */
void layer_forward(struct device *device, const struct model *model, const struct layer_weights *weights,
    const struct layer_saved *saved, const struct layer_work *work, float *out);

/* Backward in one piece. dx [n, h] from dout [n, h], and the parameters' gradients, which continue what is
   there where accumulate, else begin anew. dx may be dout. Uses work and *kept (work->kept, or a slot's), and
   saved as forward left it. */
void layer_backward(struct device *device, const struct model *model, const struct layer_weights *weights,
    float *gradients, const struct layer_saved *saved, const struct layer_kept *kept,
    const struct layer_work *work, const float *dout, float *dx, bool accumulate);

/* Backward in two halves: I, dx from kept->dout, which the caller has filled; and later W, the parameters'
   gradients. Together the calls of layer_backward, so the same bits; but gelu(u) is made once more for W.
   *kept is a slot's, and untouched from I to W, as is *saved; dx is not kept->dout. */
void layer_backward_input(struct device *device, const struct model *model,
    const struct layer_weights *weights, const struct layer_saved *saved, const struct layer_kept *kept,
    const struct layer_work *work, float *dx);
void layer_backward_weight(struct device *device, const struct model *model,
    const struct layer_weights *weights, float *gradients, const struct layer_saved *saved,
    const struct layer_kept *kept, const struct layer_work *work, bool accumulate);

/* Inputs or targets (purpose) of one microbatch of one step, [n, h]. Inputs are a boundary tensor. */
void boundary_random(
    struct device *device, const struct model *model, uint32_t purpose, int step, int microbatch, float *x);

/* dout, the gradient of the last layer's output, a boundary tensor, and *loss continued (all [n, h] but the
   loss; accumulate: not the step's first microbatch). *loss is a sum over all elements: times loss_scale it
   is the step's loss. */
void model_loss(struct device *device, const struct model *model, const float *out, const float *target,
    float *dout, float *loss, bool accumulate);
float loss_scale(const struct model *model);

/* Floating-point operations of one layer for one microbatch, an FMA counted as two: products only. Forward: 2
   n (4 h^2 + 2 h f) for the GEMMs and 2 * 2 * h * s (s + 1) / 2 a sequence for the causal attention;
   backward: twice that. What is recomputed (scores, gelu, norms) and the row kernels are not counted: the
   usual model FLOPs. */
struct layer_flops {
    double forward, backward;
};
struct layer_flops layer_flops(const struct model *model);
