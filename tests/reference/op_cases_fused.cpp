#include "tests/reference/op_cases.h"

namespace llmc::reference::testing {

std::vector<OpCase> fused_cases() {
  return {
      {"layer_norm", R"(graph @g() {
  %x = constant f32[1, 4] {1, 2, 3, 6}
  %w = constant f32[4] {1, 1, 2, 0.5}
  %b = constant f32[4] {0, 0, 1, 1}
  %y = layer_norm %x, %w, %b {epsilon = 1e-05}
  %e = constant f32[1, 4] {-1.06904344, -0.53452172, 1, 1.80178258}
  return %y, %e
})"},
      {"rms_norm", R"(graph @g() {
  %x = constant f32[2, 4] {1, 2, 3, 4, 1, 2, 3, 4}
  %w = constant f32[4] {1, 1, 2, 0.5}
  %y = rms_norm %x, %w {epsilon = 1e-06}
  %e = constant f32[2, 4] {0.36514835, 0.73029669, 2.19089008, 0.73029669, 0.36514835, 0.73029669, 2.19089008, 0.73029669}
  %z = rms_norm %x, %w {epsilon = 0.5}
  %z_e = constant f32[2, 4] {0.35355339, 0.70710678, 2.12132034, 0.70710678, 0.35355339, 0.70710678, 2.12132034, 0.70710678}
  return %y, %e, %z, %z_e
})"},
      {"rope", R"(graph @g() {
  %x = constant f32[1, 2, 1, 4] {1, 2, 3, 4, 5, 6, 7, 8}
  %p = constant i64[1, 2] {0, 2}
  %f = constant f32[2] {1, 0.1}
  %half = rope %x, %p, %f {rotary_dim = 4}
  %half_e = constant f32[1, 2, 1, 4] {1, 2, 3, 4, -8.44581617, 4.29104482, 1.63345928, 9.03254851}
  %inter = rope %x, %p, %f {rotary_dim = 4, interleaved = true}
  %inter_e = constant f32[1, 2, 1, 4] {1, 2, 3, 4, -7.53651874, 2.04960611, 5.27111140, 9.23121794}
  %hx = transpose %x {perm = [0, 2, 1, 3]}
  %first = rope %hx, %p, %f {rotary_dim = 4, heads_first = true}
  %first_e = transpose %half_e {perm = [0, 2, 1, 3]}
  %t = constant f32[3, 4] {1, 1, 0, 0, 9, 9, 9, 9, -0.41614684, 0.98006658, 0.90929743, 0.19866933}
  %table = rope %x, %p, %t {rotary_dim = 4, table = true}
  %wide = constant f32[1, 1, 1, 6] {1, 2, 3, 4, 5, 6}
  %three = constant i64[] {3}
  %f2 = constant f32[2] {0.5, 0.1}
  %partial = rope %wide, %three, %f2 {rotary_dim = 4}
  %partial_e = constant f32[1, 1, 1, 6] {-2.92174776, 0.72859215, 1.20970659, 4.41238637, 5, 6}
  return %half, %half_e, %inter, %inter_e, %first, %first_e, %table, %half_e, %partial, %partial_e
})"},
      {"attention", R"(graph @g() {
  %q = constant f32[1, 2, 2, 2] {1, 0, 0, 1, 1, 1, 2, 0}
  %k = constant f32[1, 2, 1, 2] {0, 1, 1, 0}
  %v = constant f32[1, 2, 1, 2] {1, 2, 3, 4}
  %past = constant f32[2, 1, 1, 1, 2] {1, 1, 10, 20}
  %o, %p = attention %q, %k, %v, %past {heads = 2, kv_heads = 1, head_dim = 2, scale = 0.5}
  %o_e = constant f32[1, 2, 4] {6.60213398, 13.20426796, 5.5, 11, 5.61490210, 10.68166695, 5.64550678, 10.44637597}
  %p_e = constant f32[2, 1, 3, 1, 2] {1, 1, 0, 1, 1, 0, 10, 20, 1, 2, 3, 4}
  %none = constant f32[2, 1, 0, 1, 2] {}
  %n, %np = attention %q, %k, %v, %none {heads = 2, kv_heads = 1, head_dim = 2, scale = 0.5}
  %n_e = constant f32[1, 2, 4] {1, 2, 1, 2, 2, 3, 2.46211716, 3.46211716}
  %np_e = constant f32[2, 1, 2, 1, 2] {0, 1, 1, 0, 1, 2, 3, 4}
  return %o, %o_e, %p, %p_e, %n, %n_e, %np, %np_e
})"},
      {"cross_attention", R"(graph @g() {
  %q = constant f32[1, 2, 2, 2] {1, 0, 0, 1, 1, 1, 2, 0}
  %s = constant f32[2, 1, 3, 2] {1, 1, 0, 1, 1, 0, 10, 20, 1, 2, 3, 4}
  %o = cross_attention %q, %s {heads = 2, kv_heads = 1, head_dim = 2, scale = 0.5}
  %o_e = constant f32[1, 2, 4] {5.22016904, 9.67303462, 4.91825866, 9.37112424, 5.61490210, 10.68166695, 5.64550678, 10.44637597}
  %c = cross_attention %q, %s {heads = 2, kv_heads = 1, head_dim = 2, scale = 0.5, softcap = 0.75}
  %c_e = constant f32[1, 2, 4] {5.15735184, 9.55882152, 4.88970538, 9.29117507, 5.06238548, 9.50756914, 5.36383565, 9.93424664}
  return %o, %o_e, %c, %c_e
})"},
      {"scaled_attention", R"(graph @g() {
  %q = constant f32[2, 2] {1, 0, 0, 2}
  %k = constant f32[2, 3] {1, 0, 1, 0, 1, 1}
  %v = constant f32[3, 2] {1, 2, 3, 4, 5, 6}
  %bias = constant f32[1, 3] {0, 1, -1}
  %mask = constant bool[2, 3] {false, true, false, false, false, true}
  %a = scaled_attention %q, %k, %v {scale = 0.5}
  %a_e = constant f32[2, 2] {3.00000000, 4.00000000, 3.53391279, 4.53391279}
  %b = scaled_attention %q, %k, %v, %bias {scale = 1}
  %b_e = constant f32[2, 2] {2.46608721, 3.46608721, 3.14437027, 4.14437027}
  %c = scaled_attention %q, %k, %v, _, %mask {scale = 1, fill = -10000, keeps = false}
  %c_e = constant f32[2, 2] {3.00000000, 4.00000000, 2.76159416, 3.76159416}
  %d = scaled_attention %q, %k, %v, %bias {scale = 2, softcap = 1.5}
  %d_e = constant f32[2, 2] {2.39939175, 3.39939175, 3.08543904, 4.08543904}
  return %a, %a_e, %b, %b_e, %c, %c_e, %d, %d_e
})"},
      // Two kv heads, heads first: each query head sees its own group only.
      {"attention", R"(graph @g() {
  %q = constant f32[1, 1, 2, 1] {1, 1}
  %k = constant f32[1, 1, 2, 1] {0, 0}
  %v = constant f32[1, 1, 2, 1] {3, 30}
  %past = constant f32[2, 1, 2, 2, 1] {0, 0, 0, 0, 1, 2, 10, 20}
  %o, %p = attention %q, %k, %v, %past {heads = 2, kv_heads = 2, head_dim = 1, scale = 1, cache_layout = heads_first}
  %o_e = constant f32[1, 1, 2] {2, 20}
  %p_e = constant f32[2, 1, 2, 3, 1] {0, 0, 0, 0, 0, 0, 1, 2, 3, 10, 20, 30}
  return %o, %o_e, %p, %p_e
})"},
      // Keys 1, 2, 3 for queries of 2: capped scores, and windows and chunks of two.
      {"attention", R"(graph @g() {
  %q = constant f32[1, 2, 1, 1] {2, 2}
  %k = constant f32[1, 2, 1, 1] {2, 3}
  %v = constant f32[1, 2, 1, 1] {10, 100}
  %past = constant f32[2, 1, 1, 1, 1] {1, 1}
  %c, %cp = attention %q, %k, %v, %past {heads = 1, kv_heads = 1, head_dim = 1, scale = 0.5, softcap = 2}
  %c_e = constant f32[1, 2, 1] {6.80875265, 49.89885524}
  %w, %wp = attention %q, %k, %v, %past {heads = 1, kv_heads = 1, head_dim = 1, scale = 0.5, window = 2}
  %w_e = constant f32[1, 2, 1] {7.57952721, 75.79527208}
  %one, %onep = attention %q, %k, %v, %past {heads = 1, kv_heads = 1, head_dim = 1, scale = 0.5, window = 1}
  %one_e = constant f32[1, 2, 1] {10, 100}
  %n, %np = attention %q, %k, %v, %past {heads = 1, kv_heads = 1, head_dim = 1, scale = 0.5, window = 2, chunked = true}
  %n_e = constant f32[1, 2, 1] {7.57952721, 100}
  return %c, %c_e, %w, %w_e, %one, %one_e, %n, %n_e
})"},
      {"gated_activation", R"(graph @g() {
  %a = constant f32[4] {0, 1, -2, 3}
  %b = constant f32[4] {5, 2, 3, -1}
  %y = gated_activation %a, %b {fn = silu}
  %e = constant f32[4] {0, 1.46211716, -0.71521753, -2.85772238}
  %g = gated_activation %a, %b {fn = gelu}
  %g_e = constant f32[4] {0.00000000, 1.68268949, -0.13650079, -2.99595031}
  %t = gated_activation %a, %b {fn = gelu_tanh}
  %t_e = constant f32[4] {0.00000000, 1.68238398, -0.13620692, -2.99636261}
  %r = gated_activation %a, %b {fn = relu}
  %r_e = constant f32[4] {0, 2, 0, -3}
  %s = gated_activation %a, %b {fn = sigmoid}
  %s_e = constant f32[4] {2.50000000, 1.46211716, 0.35760877, -0.95257413}
  %h = gated_activation %a, %b {fn = tanh}
  %h_e = constant f32[4] {0.00000000, 1.52318831, -2.89208274, -0.99505475}
  return %y, %e, %g, %g_e, %t, %t_e, %r, %r_e, %s, %s_e, %h, %h_e
})"},
      {"embedding", R"(graph @g() {
  %i = constant i64[1, 2] {2, 0}
  %t = constant bf16[3, 2] {1, 2, 3, 4, 5, 6}
  %y = embedding %i, %t
  %e = constant f32[1, 2, 2] {5, 6, 1, 2}
  return %y, %e
})"},
      {"expert_linear", R"(graph @g() {
  %x = constant f32[3, 1, 2] {1, 2, 3, 4, 5, 6}
  %i = constant i64[3, 1] {1, -4, 7}
  %w = constant f32[4, 2] {1, 0, 0, 1, 1, 1, 1, -1}
  %b = constant f32[4] {1, 2, 3, 4}
  %plain = expert_linear %x, %w, %i {experts = 2}
  %plain_e = constant f32[3, 1, 2] {3, -1, 3, 4, 11, -1}
  %bias = expert_linear %x, %w, %i, %b {experts = 2, format = q4}
  %bias_e = constant f32[3, 1, 2] {6, 3, 4, 6, 14, 3}
  %x2 = constant f32[1, 2, 2] {1, 2, 3, 4}
  %each = expert_linear %x2, %w {experts = 2}
  %each_e = constant f32[1, 2, 2] {1, 2, 7, -1}
  return %plain, %plain_e, %bias, %bias_e, %each, %each_e
})"},
      {"linear", R"(graph @g() {
  %x = constant f32[1, 1, 2] {1, 2}
  %w = constant f32[4, 2] {1, 0, 0, 1, 1, 1, 1, -1}
  %b = constant f32[4] {1, 2, 3, 4}
  %n = constant f32[2] {1, 2}
  %plain = linear %x, %w {format = q4}
  %plain_e = constant f32[1, 1, 4] {1, 2, 3, -1}
  %bias = linear %x, %w, %b
  %bias_e = constant f32[1, 1, 4] {2, 4, 6, 3}
  %norm = linear %x, %w, _, %n {norm_epsilon = 1e-06}
  %norm_e = constant f32[1, 1, 4] {0.63245541, 2.52982162, 3.16227703, -1.89736622}
  %r = constant f32[1, 2] {10, 20}
  %act = linear %x, %w, _, %n, %r {fn = silu, gated = true, norm_epsilon = 1e-06, format = q8}
  %act_e = constant f32[1, 1, 2] {11.30609150, 15.55421220}
  %nb = constant f32[2] {0.5, -1}
  %layer = linear %x, %w, _, %n, _, %nb {norm_epsilon = 1e-05, norm_kind = layer}
  %layer_e = constant f32[1, 1, 4] {-0.49998000, 0.99996000, 0.49998000, -1.49994000}
  %r4 = constant f32[1, 4] {10, 20, 30, 40}
  %fn = linear %x, %w, %b, _, %r4 {fn = gelu_tanh}
  %fn_e = constant f32[1, 1, 4] {11.95459769, 23.99992975, 36.00000000, 42.99636261}
  %none = constant f32[0, 2] {}
  %empty = linear %none, %w
  %empty_e = constant f32[0, 4] {}
  return %plain, %plain_e, %bias, %bias_e, %norm, %norm_e, %act, %act_e, %layer, %layer_e, %fn, %fn_e, %empty, %empty_e
})"},
      {"qkv_projection", R"(graph @g() {
  %x = constant f32[1, 2] {1, 2}
  %w = constant f32[8, 2] {1, 0, 0, 1, 1, 1, 1, -1, 2, 0, 0, 2, 3, 0, 0, 3}
  %b = constant f32[8] splat(0.5)
  %p = constant i64[1] {1}
  %f = constant f32[1] {1}
  %q, %k, %v = qkv_projection %x, %w, %b, _, %p, %f {heads = 2, kv_heads = 1, head_dim = 2, rope = {rotary_dim = 2}}
  %q_e = constant f32[1, 1, 2, 2] {-1.29322400, 2.61296224, 2.31179356, 2.67499729}
  %k_e = constant f32[1, 1, 1, 2] {-2.43586367, 4.53503784}
  %v_e = constant f32[1, 1, 1, 2] {3.5, 6.5}
  %q0, %k0, %v0 = qkv_projection %x, %w {heads = 2, kv_heads = 1, head_dim = 2}
  %q0_e = constant f32[1, 1, 2, 2] {1, 2, 3, -1}
  %qw = constant f32[2] {1, 2}
  %kw = constant f32[2] {3, 1}
  %q1, %k1, %v1 = qkv_projection %x, %w, %b, _, %p, %f, _, %qw, %kw {heads = 2, kv_heads = 1, head_dim = 2, qk_norm_epsilon = 1e-06, rope = {rotary_dim = 2}}
  %q1_e = constant f32[1, 1, 2, 2] {-1.64773905, 1.92268542, 1.09301153, 0.96193838}
  %k1_e = constant f32[1, 1, 1, 2] {0.07297908, 2.40171991}
  return %q, %q_e, %k, %k_e, %v, %v_e, %q0, %q0_e, %q1, %q1_e, %k1, %k1_e, %v1, %v_e
})"},
      {"parameter", R"(graph @g() {
  %x = constant f32[2] {1, 2}
  %c0 = constant f32[1] {5}
  %c1 = constant f32[1] {6}
  %k = constant f32[] {1}
  %y, %r0, %r1 = loop %x, %c0, %c1, %k {count = 2, carried = 1, per_iteration_inputs = 1, per_iteration_outputs = 1}
    parameters [["a" f32[2] {2, 3}, "b" f32[2] splat(10)]]
    body @b(%h: f32[2], %c: f32[1], %one: f32[]) {
      %w = parameter {index = 0} : f32[2]
      %m = mul %h, %w
      %s = add %m, %one
      %r = concat %c, %h {axis = 0}
      return %s, %r
    }
  %y_e = constant f32[2] {31, 71}
  %r0_e = constant f32[3] {5, 1, 2}
  %r1_e = constant f32[3] {6, 3, 7}
  return %y, %y_e, %r0, %r0_e, %r1, %r1_e
})"},
      {"loop", R"(graph @g() {
  %x = constant i64[] {1}
  %y = loop %x {count = 3, carried = 1, per_iteration_inputs = 0, per_iteration_outputs = 0}
    parameters []
    body @outer(%a: i64[]) {
      %b = loop %a {count = 2, carried = 1, per_iteration_inputs = 0, per_iteration_outputs = 0}
        parameters []
        body @inner(%c: i64[]) {
          %d = add %c, %c
          return %d
        }
      return %b
    }
  %e = constant i64[] {64}
  return %y, %e
})"},
  };
}

}  // namespace llmc::reference::testing
