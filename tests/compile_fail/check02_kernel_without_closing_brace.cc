// expect: error_in_kernel_text<.*bracket_is_never_closed, 27, 1>
#include "quern/lang/compile_time.h"

const auto text =
    QUERN_CHECKED_TEXT(R"(// seq_len need not be a multiple of 64: see "tiles" in the specification.
let attn = compute(Q, K, V) {
    @kernel flash_attention
    @workgroup(64)
    @tile(block_q=64, block_kv=64)

    for b in 0..batch, h in 0..heads:
        for q_block in 0..seq_len step 64:
            var m = -inf
            var l = 0.0
            var o = zeros(64, head_dim)

            for kv_block in 0..seq_len step 64:
                let K_block = K[b, h, kv_block:kv_block+64]
                let V_block = V[b, h, kv_block:kv_block+64]

                let S = Q[b, h, q_block:q_block+64] @ transpose(K_block) / sqrt(head_dim)

                let m_new = max(m, row_max(S))
                let l_new = exp(m - m_new) * l + row_sum(exp(S - m_new))

                o = exp(m - m_new) * o + exp(S - m_new) @ V_block
                m = m_new
                l = l_new

            out[b, h, q_block:q_block+64] = o / l
)");
