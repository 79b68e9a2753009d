/* The double's cublasLt multiplies what it is told to, in every form, as exactly as it promises. */
#include "cublaslt_test.h"

static void check_form(
    const form &f, size_t m, size_t n, size_t k, bool ta, bool tb, size_t batch, cublasLtOrder_t order)
{
    for (int kind = 0; kind < 4; kind++) { /* plain, bias, in place, C elsewhere */
        product p(f, m, n, k, ta, tb, batch, order);
        if (kind == 1) p.add_bias();
        p.beta = kind == 2 ? 1.0f : kind == 3 ? -0.5f : 0.0f;
        wish(p.preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
            (uint32_t)(kind ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE : CUBLASLT_REDUCTION_SCHEME_NONE));
        for (auto &offer : p.offers()) {
            matrix fresh(f.out, order, m, n, batch);
            matrix &result = kind == 2 ? p.c : fresh;
            const std::vector<float> before = p.c.content;
            int32_t apart = 0;
            size_t written = 0;
            DONE(cublasLtMatmulAlgoCapGetAttribute(
                &offer.algo, CUBLASLT_ALGO_CAP_OUT_OF_PLACE_RESULT_SUPPORT, &apart, sizeof apart, &written));
            const cublasStatus_t status = p.run(&offer.algo, result);
            if (kind == 3 && !apart) {
                CHECK(status == CUBLAS_STATUS_NOT_SUPPORTED, "C elsewhere: %d", status);
                continue;
            }
            DONE(status);
            result.take();
            const double error = p.error(result, before, kind == 1);
            CHECK(error <= 1, "%s %zux%zux%zu %d%d batch %zu order %d kind %d algorithm %d split %d: %g",
                f.name, m, n, k, ta, tb, batch, order, kind, attribute(offer.algo, CUBLASLT_ALGO_CONFIG_ID),
                attribute(offer.algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM), error);
            if (kind == 2) {
                p.c.content = before;
                p.c.put();
            }
        }
    }
}

int main()
{
    open_library();
    const size_t shapes[][3] = { { 1, 1, 1 }, { 5, 7, 3 }, { 13, 24, 33 }, { 16, 9, 100 } };
    for (grain = 1; grain <= 8; grain *= 8)
        for (const form &f : forms)
            for (auto &s : shapes)
                for (int t = 0; t < 4; t++)
                    for (size_t batch = 1; batch <= 3; batch += 2)
                        for (cublasLtOrder_t order : { CUBLASLT_ORDER_COL, CUBLASLT_ORDER_ROW })
                            check_form(f, s[0], s[1], s[2], t & 1, t & 2, batch, order);
    return close_library();
}
