/* What the double's cublasLt keeps of the real one besides the numbers: what it offers, what it refuses, when
   it computes, and that the bits of two algorithms differ. */
#include "cublaslt_test.h"
#include <atomic>

/* The heuristic obeys the preference; misbehaving, it begins with what nobody should take. */
static void check_offers()
{
    grain = 4;
    product p(forms[0], 16, 24, 64), aligned(forms[0], 16, 24, 64);
    grain = 1;
    bool split = false, one_piece = false;
    for (auto &offer : p.offers()) {
        const bool is_split = attribute(offer.algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM) > 1;
        CHECK(is_split == (attribute(offer.algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME) != 0),
            "split k and reduction");
        split |= is_split;
        one_piece |= !is_split;
    }
    CHECK(split && one_piece, "with every reduction allowed both kinds are offered");

    wish(p.preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, (uint32_t)CUBLASLT_REDUCTION_SCHEME_NONE);
    wish(p.preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, (uint64_t)0);
    auto some = p.offers();
    CHECK(some.size() >= 2, "%zu algorithms", some.size());
    for (auto &offer : some) {
        CHECK(attribute(offer.algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM) == 1, "the mask forbids split k");
        CHECK(offer.workspaceSize == 0, "%zu bytes, and none allowed", offer.workspaceSize);
    }
    double_cublaslt_misbehave(1);
    auto bad = p.offers();
    double_cublaslt_misbehave(0);
    CHECK(attribute(bad[0].algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM) > 1,
        "misbehaving, it splits k against the mask");
    CHECK(bad[0].workspaceSize > 0, "and takes workspace that it was not given");

    wish(aligned.preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        (uint32_t)CUBLASLT_REDUCTION_SCHEME_NONE);
    const size_t more = aligned.offers().size();
    wish(aligned.preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, (uint32_t)4);
    const size_t fewer = aligned.offers().size();
    CHECK(more == 4 && fewer == 2, "%zu algorithms for aligned operands, %zu for others", more, fewer);

    cublasLtMatmulHeuristicResult_t list[2];
    int count = 0;
    DONE(cublasLtMatmulAlgoGetHeuristic(
        handle, p.op, p.a.layout, p.b.layout, p.c.layout, p.d.layout, p.preference, 2, list, &count));
    CHECK(count == 2 && list[1].state == CUBLAS_STATUS_NOT_SUPPORTED,
        "a result's state may say that it is none");
    CHECK(p.run(&list[1].algo, p.d) == CUBLAS_STATUS_INVALID_VALUE, "and then it cannot be run");
}

/* Another algorithm, other bits; and none has those of a sum in ascending order. */
static void check_bits()
{
    grain = 4;
    product p(forms[0], 16, 24, 100);
    grain = 1;
    p.alpha = 1;
    wish(p.preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, (uint32_t)CUBLASLT_REDUCTION_SCHEME_NONE);
    std::vector<std::vector<float>> results;
    std::vector<float> ascending(p.d.content.size());
    for (size_t i = 0; i < p.m; i++)
        for (size_t j = 0; j < p.n; j++) {
            float sum = 0;
            for (size_t k = 0; k < p.k; k++) sum = std::fma(p.a.at(0, i, k), p.b.at(0, k, j), sum);
            ascending[(size_t)(&p.d.at(0, i, j) - &p.d.content[0])] = sum;
        }
    results.push_back(ascending);
    for (auto &offer : p.offers())
        for (int again = 0; again < 2; again++) {
            DONE(p.run(&offer.algo, p.d));
            p.d.take();
            std::vector<float> found = p.d.content;
            for (size_t i = 0; i < found.size(); i++)
                if (std::isnan(found[i])) found[i] = 0; /* the gaps */
            if (again) CHECK(found == results.back(), "the same call gives the same bits");
            if (again) continue;
            for (auto &other : results) CHECK(found != other, "two orders of summation give the same bits");
            results.push_back(found);
        }
    CHECK(results.size() == 5, "%zu", results.size());
}

/* The product is computed in stream order, with alpha, beta and the descriptor as they were at the call. */
static void check_stream()
{
    product p(forms[0], 4, 4, 8);
    p.add_bias();
    const auto offers = p.offers();
    const int target = 100;
    set(p.op, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, target);
    const unsigned long calls = double_cublaslt_calls();
    std::atomic<bool> open{ false };
    double_enqueue(stream, { "gate", [&] { return open.load(); }, nullptr, true });
    DONE(p.run(&offers[0].algo, p.d));
    CHECK(double_cublaslt_calls() == calls + 1, "a call is counted");
    const double_cublaslt_call last = double_cublaslt_last();
    CHECK(last.sm_count_target == target && last.m == 4 && last.n == 4 && last.k == 8 && last.batch == 1 &&
              last.epilogue == CUBLASLT_EPILOGUE_BIAS && last.compute == CUBLAS_COMPUTE_32F &&
              !last.without_algorithm &&
              last.algorithm == attribute(offers[0].algo, CUBLASLT_ALGO_CONFIG_ID) &&
              last.split_k == attribute(offers[0].algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
        "and described");
    float first;
    memcpy(&first, p.d.memory, sizeof first);
    for (int i = 0; i < 20; i++) CHECK(cudaStreamQuery(stream) == cudaErrorNotReady, "the gate holds");
    CHECK(first == p.d.content[0], "nothing is computed before the stream gets there");
    set(p.op, CUBLASLT_MATMUL_DESC_EPILOGUE, (uint32_t)CUBLASLT_EPILOGUE_DEFAULT);
    open = true;
    p.d.take();
    CHECK(p.error(p.d, p.d.content, true) <= 1, "computed, with the bias that was asked for at the call");
    DONE(p.run(nullptr, p.d));
    p.d.take();
    CHECK(double_cublaslt_last().without_algorithm && p.error(p.d, p.d.content, false) <= 1,
        "without an algorithm");
}

/* Numbers of few bits: rounding to nearest, ties to even; what beta = 0 never reads; NaN and infinity. */
static void check_rounding()
{
    float nan_of_ones;
    const uint32_t ones = 0x7fffffff; /* rounded as a number it would become -0 */
    memcpy(&nan_of_ones, &ones, sizeof ones);
    const struct {
        int form;
        float a, expected;
    } cases[] = { { 1, nan_of_ones, NAN }, { 3, nan_of_ones, NAN }, { 1, 1 + 0x1p-10f, 1 + 0x1p-10f },
        { 1, 1 + 0x1p-11f, 1 }, { 1, 1 + 3 * 0x1p-11f, 1 + 0x1p-9f }, { 1, 1 + 0x1.1p-11f, 1 + 0x1p-10f },
        { 0, 1 + 0x1p-11f, 1 + 0x1p-11f }, { 3, 1 + 0x1p-7f, 1 + 0x1p-7f }, { 0, INFINITY, INFINITY },
        { 1, NAN, NAN }, { 3, NAN, NAN }, { 3, -INFINITY, -INFINITY } };
    for (auto &c : cases) {
        product p(forms[c.form], 1, 1, 1);
        p.alpha = 1;
        p.a.at(0, 0, 0) = c.a;
        p.b.at(0, 0, 0) = 1;
        p.c.at(0, 0, 0) = NAN;
        p.a.put();
        p.b.put();
        p.c.put();
        DONE(p.run(&p.offers()[0].algo, p.d));
        p.d.take();
        const float found = p.d.at(0, 0, 0);
        CHECK(found == c.expected || (std::isnan(found) && std::isnan(c.expected)), "%s %a: %a, not %a",
            forms[c.form].name, c.a, found, c.expected);
    }
    product tie(forms[3], 1, 1, 2); /* 1 + 2^-8 lies between two bf16 numbers, 1 + 3 * 2^-8 too */
    tie.alpha = 1;
    for (int odd = 0; odd < 2; odd++) {
        tie.a.at(0, 0, 0) = 1;
        tie.a.at(0, 0, 1) = odd ? 3 * 0x1p-8f : 0x1p-8f;
        tie.b.at(0, 0, 0) = tie.b.at(0, 1, 0) = 1;
        tie.a.put();
        tie.b.put();
        DONE(tie.run(nullptr, tie.d));
        tie.d.take();
        CHECK(tie.d.at(0, 0, 0) == (odd ? 1 + 0x1p-6f : 1), "%a", tie.d.at(0, 0, 0));
    }
}

static void check_refusals()
{
    const cublasStatus_t invalid = CUBLAS_STATUS_INVALID_VALUE, unsupported = CUBLAS_STATUS_NOT_SUPPORTED;
    const struct {
        const char *what;
        cublasStatus_t status;
        void (*spoil)(product &p);
    } cases[] = {
        { "a leading dimension below the rows", invalid,
            [](product &p) {
                const int64_t ld = (int64_t)p.a.rows - 1;
                DONE(cublasLtMatrixLayoutSetAttribute(p.a.layout, CUBLASLT_MATRIX_LAYOUT_LD, &ld, sizeof ld));
            } },
        { "rows that do not fit", invalid,
            [](product &p) {
                const uint64_t rows = p.b.rows - 1;
                DONE(cublasLtMatrixLayoutSetAttribute(
                    p.b.layout, CUBLASLT_MATRIX_LAYOUT_ROWS, &rows, sizeof rows));
            } },
        { "batches of two numbers", invalid,
            [](product &p) {
                const int32_t two = 2;
                DONE(cublasLtMatrixLayoutSetAttribute(
                    p.b.layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &two, sizeof two));
            } },
        { "an order of tiles", unsupported,
            [](product &p) {
                const int32_t order = CUBLASLT_ORDER_COL32;
                DONE(cublasLtMatrixLayoutSetAttribute(
                    p.a.layout, CUBLASLT_MATRIX_LAYOUT_ORDER, &order, sizeof order));
            } },
        { "A and B of two types", unsupported,
            [](product &p) {
                const uint32_t type = CUDA_R_16BF;
                DONE(cublasLtMatrixLayoutSetAttribute(
                    p.b.layout, CUBLASLT_MATRIX_LAYOUT_TYPE, &type, sizeof type));
            } },
        { "another epilogue", unsupported,
            [](product &p) { set(p.op, CUBLASLT_MATMUL_DESC_EPILOGUE, (uint32_t)CUBLASLT_EPILOGUE_GELU); } },
        { "alpha on the device", unsupported,
            [](product &p) {
                set(p.op, CUBLASLT_MATMUL_DESC_POINTER_MODE, (int32_t)CUBLASLT_POINTER_MODE_DEVICE);
            } },
        { "tf32 of bf16", unsupported,
            [](product &p) { set(p.op, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, (int32_t)CUBLAS_COMPUTE_64F); } },
        { "a bias of another type", unsupported,
            [](product &p) { set(p.op, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, (int32_t)CUDA_R_16BF); } },
    };
    for (auto &c : cases) {
        product p(forms[0], 8, 8, 8);
        const auto offers = p.offers();
        c.spoil(p);
        p.offers(c.status);
        const cublasStatus_t status = p.run(&offers[0].algo, p.d);
        CHECK(status == c.status, "%s: %d", c.what, status);
    }
}

/* What only the call can see: pointers, workspace, and an algorithm for something else. */
static void check_pointers()
{
    product p(forms[0], 8, 8, 8), other(forms[2], 8, 8, 8);
    const cublasStatus_t invalid = CUBLAS_STATUS_INVALID_VALUE;
    char *const c = p.c.memory;
    p.c.memory = nullptr;
    DONE(p.run(&p.offers()[0].algo, p.d)); /* with beta = 0 there need not be a C */
    p.c.memory = c;
    p.beta = 1;
    for (auto &offer : p.offers()) {
        if (offer.workspaceSize) {
            CHECK(p.run(&offer.algo, p.c, offer.workspaceSize - 1) == invalid, "too little workspace");
            void *const kept = workspace;
            workspace = nullptr;
            CHECK(p.run(&offer.algo, p.c) == invalid, "no workspace");
            workspace = kept;
        }
        CHECK(p.run(&offer.algo, p.c, WORKSPACE, 4) == invalid, "not aligned as the preference says");
        CHECK(other.run(&offer.algo, other.d) == invalid, "an algorithm for other types");
    }
    wish(p.preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, (uint32_t)4);
    const auto offers = p.offers();
    CHECK(p.run(&offers[0].algo, p.c, WORKSPACE, 4) == 0, "aligned as the preference says");
    CHECK(p.run(&offers[0].algo, p.c, WORKSPACE, 400) == invalid, "past the end of A");
    char *const kept = p.b.memory;
    p.b.memory = (char *)&kept;
    wish(p.preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, (uint32_t)4);
    const auto unaligned = p.offers();
    CHECK(p.run(&unaligned[0].algo, p.c) == invalid, "B on the host");
    p.b.memory = kept;
    p.add_bias();
    set(p.op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, (const void *)nullptr);
    CHECK(p.run(&offers[0].algo, p.c) == invalid, "no bias");
    DONE(cudaStreamSynchronize(stream));
}

static void check_attributes()
{
    int ids[8], count = 0;
    DONE(cublasLtMatmulAlgoGetIds(handle, CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F,
        CUDA_R_32F, 8, ids, &count));
    CHECK(count >= 3, "%d algorithms", count);
    product p(forms[0], 8, 8, 8);
    cublasLtMatmulAlgo_t algo;
    cublasLtMatmulHeuristicResult_t result;
    DONE(cublasLtMatmulAlgoInit(handle, CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F,
        CUDA_R_32F, ids[1], &algo));
    const auto check = [&] {
        return cublasLtMatmulAlgoCheck(
            handle, p.op, p.a.layout, p.b.layout, p.c.layout, p.d.layout, &algo, &result);
    };
    DONE(check());
    const int32_t two = 2, scheme = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    DONE(cublasLtMatmulAlgoConfigSetAttribute(&algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &two, sizeof two));
    CHECK(check() == CUBLAS_STATUS_NOT_SUPPORTED, "k split with nothing to add up the parts");
    DONE(cublasLtMatmulAlgoConfigSetAttribute(
        &algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme, sizeof scheme));
    DONE(check());
    CHECK(result.workspaceSize == 2 * 8 * 8 * sizeof(float), "%zu bytes", result.workspaceSize);
    CHECK(cublasLtMatmulAlgoConfigSetAttribute(&algo, CUBLASLT_ALGO_CONFIG_ID, &two, sizeof two) != 0,
        "the id is fixed");

    const int64_t wide = 0;
    CHECK(cublasLtMatmulDescSetAttribute(p.op, CUBLASLT_MATMUL_DESC_TRANSA, &wide, sizeof wide) ==
              CUBLAS_STATUS_INVALID_VALUE,
        "an attribute of another size");
    CHECK(cublasLtMatmulDescSetAttribute(p.op, CUBLASLT_MATMUL_DESC_TRANSA, nullptr, 4) ==
              CUBLAS_STATUS_INVALID_VALUE,
        "no value");
    size_t written = 0;
    int64_t ld = 0;
    DONE(cublasLtMatrixLayoutGetAttribute(p.a.layout, CUBLASLT_MATRIX_LAYOUT_LD, nullptr, 0, &written));
    CHECK(written == sizeof ld, "%zu bytes are needed", written);
    DONE(cublasLtMatrixLayoutGetAttribute(p.a.layout, CUBLASLT_MATRIX_LAYOUT_LD, &ld, sizeof ld, &written));
    CHECK(ld == (int64_t)p.a.leading, "%ld", (long)ld);
    CHECK(cublasLtGetVersion() == CUBLAS_VERSION, "%zu", cublasLtGetVersion());
    CHECK(
        !strcmp(cublasLtGetStatusName(CUBLAS_STATUS_NOT_SUPPORTED), "CUBLAS_STATUS_NOT_SUPPORTED"), "names");
    cublasLtHandle_t none = nullptr;
    CHECK(cublasLtDestroy(none) == CUBLAS_STATUS_NOT_INITIALIZED, "no handle");
}

int main()
{
    open_library();
    check_offers();
    check_bits();
    check_stream();
    check_rounding();
    check_refusals();
    check_pointers();
    check_attributes();
    return close_library();
}
