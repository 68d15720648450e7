#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include "compiler/ir/text.h"

/// Small decoders of several families, written as text with separate operators, as they are before
/// the passes merge and fuse.
namespace llmc::tests {

struct Family {
  std::string name;
  std::int64_t layers = 2, hidden = 60, heads = 4, kv_heads = 2, head_dim = 20, intermediate = 70;
  std::int64_t vocabulary = 97, positions = 128;
  bool layer_norm = false;  // with a bias; otherwise RMS
  bool post_norms = false;  // norms of the branches, before they are added to x
  bool head_norms = false;  // norms of the heads of q and k
  bool parallel = false;    // x + attention(n) + mlp(n)
  bool bias = false;        // in every layer
  std::string function = "silu";
  bool gated = true;
  bool learned_positions = false;
  std::int64_t rotary_dim = 20;  // 0: no rotation
  bool interleaved = false, rope_table = false;
  std::int64_t window = 0, global_every = 0;  // every global_every-th layer attends to all tokens
  double softcap = 0, scale = 0.25, embedding_scale = 0, logit_softcap = 0;
  double layer_scale = 0;   // the branches of layer i are multiplied by layer_scale / (i + 1),
  bool same_scale = false;  // or, if same_scale, all of them by layer_scale
  double power = 0;         // exponent applied to the activation
  bool unfused = false;     // operators without a kernel before the last layer of the MLP
  double scale_step = 0;    // layer i has scale + i * scale_step

  friend void PrintTo(const Family& family, std::ostream* out) { *out << family.name; }
};

class FamilyText {
 public:
  explicit FamilyText(const Family& family) : f_(family) {}

  ir::Graph build() {
    std::string inputs =
        "%input_ids: i64[seq] {kind = token_ids}, %position_ids: i64[1, seq] {kind = positions}";
    std::string presents;
    for (std::int64_t i = 0; i < f_.layers; ++i) {
      inputs +=
          fmt::format(", %past.{}: f32[2, 1, past, {}, {}] {{kind = attention_cache, layer = {}}}",
                      i, f_.kv_heads, f_.head_dim, i);
      presents += fmt::format(", %present.{}", i);
    }
    line("%rows = constant i64[3] {{1, -1, {}}}", f_.hidden);
    line("%heads = constant i64[4] {{1, -1, {}, {}}}", f_.heads, f_.head_dim);
    line("%kv_heads = constant i64[4] {{1, -1, {}, {}}}", f_.kv_heads, f_.head_dim);
    angles("local", 100);
    angles("global", 10000);
    line("%table = constant f32[{}, {}] {}", f_.vocabulary, f_.hidden, random(1));
    line("%ids_x = embedding %input_ids, %table");
    line("%x = reshape %ids_x, %rows");
    std::string x = "x";
    if (f_.embedding_scale != 0) {
      line("%es = constant f32[] {{{}}}", f_.embedding_scale);
      line("%scaled = mul %x, %es");
      x = "scaled";
    }
    if (f_.learned_positions) {
      line("%wpe = constant f32[{}, {}] {}", f_.positions, f_.hidden, random(0.5));
      line("%pos_x = embedding %position_ids, %wpe");
      line("%at = add %{}, %pos_x", x);
      x = "at";
    }
    for (std::int64_t i = 0; i < f_.layers; ++i) x = layer(i, x);
    x = norm("final", x);
    std::string logits = linear("lm", x, f_.vocabulary, f_.hidden, false);
    if (f_.logit_softcap != 0) {
      line("%cap = constant f32[] {{{}}}", f_.logit_softcap);
      line("%capped = div %{}, %cap", logits);
      line("%squashed = tanh %capped");
      line("%logits = mul %squashed, %cap");
      logits = "logits";
    }
    const auto graph = ir::parse(fmt::format("graph @{}({}) {{\n{}  return %{}{}\n}}\n", f_.name,
                                             inputs, text_, logits, presents));
    if (!graph.ok()) {
      ADD_FAILURE() << graph.error().first().message << "\n" << text_;
      return {};
    }
    return *graph;
  }

 private:
  template <class... A>
  void line(fmt::format_string<A...> format, A&&... arguments) {
    text_ += "  " + fmt::format(format, std::forward<A>(arguments)...) + "\n";
  }
  std::string random(double scale) { return fmt::format("random({}, {})", ++seed_, scale); }

  /// Emits the frequencies base^(-2i/rotary_dim), or the table of their cosines and sines.
  void angles(const std::string& name, double base) {
    if (f_.rotary_dim == 0) return;
    const std::int64_t half = f_.rotary_dim / 2;
    std::vector<float> values;
    const auto frequency = [&](std::int64_t i) {
      return static_cast<float>(
          std::pow(base, -static_cast<double>(i) / static_cast<double>(half)));
    };
    if (!f_.rope_table) {
      for (std::int64_t i = 0; i < half; ++i) values.push_back(frequency(i));
      line("%{} = constant f32[{}] {{{}}}", name, half, fmt::join(values, ", "));
      return;
    }
    for (std::int64_t p = 0; p < f_.positions; ++p)
      for (std::int64_t i = 0; i < 2 * half; ++i) {
        const double angle = static_cast<double>(p) * static_cast<double>(frequency(i % half));
        values.push_back(static_cast<float>(i < half ? std::cos(angle) : std::sin(angle)));
      }
    line("%{} = constant f32[{}, {}] {{{}}}", name, f_.positions, 2 * half,
         fmt::join(values, ", "));
  }

  std::string linear(const std::string& name, const std::string& x, std::int64_t rows,
                     std::int64_t columns, bool bias) {
    line("%{}_w = constant f32[{}, {}] {}", name, rows, columns, random(0.3));
    if (bias) line("%{}_b = constant f32[{}] {}", name, rows, random(0.2));
    line("%{} = linear %{}, %{}_w{}", name, x, name, bias ? fmt::format(", %{}_b", name) : "");
    return name;
  }
  std::string norm(const std::string& name, const std::string& x) {
    line("%{}_n = constant f32[{}] {}", name, f_.hidden, random(1));
    if (f_.layer_norm) {
      line("%{}_nb = constant f32[{}] {}", name, f_.hidden, random(0.3));
      line("%{}_norm = layer_norm %{}, %{}_n, %{}_nb {{epsilon = 1e-05}}", name, x, name, name);
    } else {
      line("%{}_norm = rms_norm %{}, %{}_n {{epsilon = 1e-06}}", name, x, name);
    }
    return name + "_norm";
  }
  std::string projection(const std::string& p, const std::string& part, const std::string& x,
                         std::int64_t heads, const std::string& angles) {
    std::string y = linear(p + part, x, heads * f_.head_dim, f_.hidden, f_.bias);
    line("%{}{}_h = reshape %{}, %{}", p, part, y, part == "q" ? "heads" : "kv_heads");
    y = p + part + "_h";
    if (part == "v") return y;
    if (f_.head_norms) {
      line("%{}_g = constant f32[{}] {}", y, f_.head_dim, random(1));
      line("%{}_n = rms_norm %{}, %{}_g {{epsilon = 1e-06}}", y, y, y);
      y += "_n";
    }
    if (f_.rotary_dim == 0) return y;
    line("%{}_r = rope %{}, %position_ids, %{} {{rotary_dim = {}, interleaved = {}, table = {}}}",
         y, y, angles, f_.rotary_dim, f_.interleaved, f_.rope_table);
    return y + "_r";
  }

  std::string layer(std::int64_t i, const std::string& x) {
    const std::string p = fmt::format("l{}.", i);
    const bool local = f_.window != 0 && (f_.global_every == 0 || (i + 1) % f_.global_every != 0);
    const std::string angles = local ? "local" : "global";
    const std::string n = norm(p + "in", x);
    const std::string q = projection(p, "q", n, f_.heads, angles);
    const std::string k = projection(p, "k", n, f_.kv_heads, angles);
    const std::string v = projection(p, "v", n, f_.kv_heads, angles);
    line(
        "%{}a, %present.{} = attention %{}, %{}, %{}, %past.{} {{heads = {}, kv_heads = {}, "
        "head_dim = {}, scale = {}, softcap = {}, window = {}}}",
        p, i, q, k, v, i, f_.heads, f_.kv_heads, f_.head_dim,
        f_.scale + f_.scale_step * static_cast<double>(i), f_.softcap, local ? f_.window : 0);
    std::string o = linear(p + "o", p + "a", f_.hidden, f_.heads * f_.head_dim, f_.bias);
    if (f_.post_norms) o = norm(p + "post_o", o);
    o = scaled(i, o);
    if (!f_.parallel) {
      line("%{}mid = add %{}, %{}", p, x, o);
      const std::string m = scaled(i, mlp(p, norm(p + "mlp", p + "mid")));
      line("%{}x = add %{}mid, %{}", p, p, m);
    } else {
      const std::string m = mlp(p, n);
      line("%{}both = add %{}, %{}", p, o, m);
      line("%{}x = add %{}both, %{}", p, p, x);
    }
    return p + "x";
  }
  /// Multiplies a branch of layer i by the layer's scalar.
  std::string scaled(std::int64_t i, const std::string& branch) {
    if (f_.layer_scale == 0) return branch;
    const double divisor = f_.same_scale ? 1 : static_cast<double>(i + 1);
    line("%{}_c = constant f32[1] {{{}}}", branch, f_.layer_scale / divisor);
    line("%{}_s = mul %{}, %{}_c", branch, branch, branch);
    return branch + "_s";
  }
  std::string mlp(const std::string& p, const std::string& n) {
    const std::string gate = linear(p + "gate", n, f_.intermediate, f_.hidden, f_.bias);
    if (f_.gated) {
      const std::string up = linear(p + "up", n, f_.intermediate, f_.hidden, f_.bias);
      line("%{}act = gated_activation %{}, %{} {{fn = {}}}", p, gate, up, f_.function);
    } else {
      line("%{}act = {} %{}", p, f_.function, gate);
    }
    std::string activated = p + "act";
    if (f_.power != 0) {
      line("%{}e = constant f32[] {{{}}}", p, f_.power);
      line("%{}power = pow %{}act, %{}e", p, p, p);
      activated = p + "power";
    }
    if (f_.unfused) activated = unfused(p, activated);
    const std::string down = linear(p + "down", activated, f_.hidden, f_.intermediate, f_.bias);
    return f_.post_norms ? norm(p + "post_mlp", down) : down;
  }

  /// Emits y = where(x > threshold, softmax over parts of x, sum over the largest parts of x). Uses
  /// operators of every kind of loop nest: views that move elements, reductions, products, indices,
  /// integers.
  std::string unfused(const std::string& p, const std::string& x) {
    const std::int64_t parts = 7, size = f_.intermediate / parts;
    line("%{}shape = constant i64[4] {{1, -1, {}, {}}}", p, parts, size);
    line("%{}flat = constant i64[3] {{1, -1, {}}}", p, f_.intermediate);
    line("%{}parts = reshape %{}, %{}shape", p, x, p);
    line("%{}first = transpose %{}parts {{perm = [0, 3, 1, 2]}}", p, p);  // size before tokens
    line("%{}soft = softmax %{}first {{axis = -1}}", p, p);
    line("%{}matrix = constant f32[{}, {}, {}] {}", p, size, parts, parts, random(1));
    line("%{}product = matmul %{}soft, %{}matrix", p, p, p);
    line("%{}back = transpose %{}product {{perm = [0, 2, 3, 1]}}", p, p);
    line("%{}soft_x = reshape %{}back, %{}flat", p, p, p);
    line("%{}sums = reduce_mean %{}parts {{axes = [-1], keep_dims = false}}", p, p);
    line("%{}three = constant i64[1] {{3}}", p);
    line("%{}best, %{}at = top_k %{}sums, %{}three {{axis = -1}}", p, p, p, p);
    line("%{}rows = constant f32[{}, {}] {}", p, parts, f_.intermediate, random(1));
    line("%{}chosen = gather %{}rows, %{}at {{axis = 0}}", p, p, p);
    line("%{}weight = unsqueeze %{}best {{axes = [3]}}", p, p);
    line("%{}weighted = mul %{}chosen, %{}weight", p, p, p);
    line("%{}mixed = reduce_sum %{}weighted {{axes = [2], keep_dims = false}}", p, p);
    line("%{}places = cast %position_ids {{to = f32}}", p);
    line("%{}places_x = unsqueeze %{}places {{axes = [2]}}", p, p);
    line("%{}wave = sin %{}places_x", p, p);
    line("%{}moved = mul %{}mixed, %{}wave", p, p, p);
    line("%{}threshold = constant f32[{}] {}", p, f_.intermediate, random(0.5));
    line("%{}above = greater %{}, %{}threshold", p, x, p);
    line("%{}y = where %{}above, %{}soft_x, %{}moved", p, p, p, p);
    return p + "y";
  }

  Family f_;
  std::string text_;
  int seed_ = 0;
};

inline std::vector<Family> families() {
  std::vector<Family> all;
  const auto add = [&](const char* name) -> Family& {
    all.push_back({.name = name});
    return all.back();
  };
  Family& gemma2 = add("gemma2");  // alternating local and global layers, softcaps
  gemma2.layers = 5;
  gemma2.post_norms = true;
  gemma2.function = "gelu_tanh";
  gemma2.window = 9;
  gemma2.global_every = 2;
  gemma2.softcap = 2;
  gemma2.embedding_scale = 7.75;
  gemma2.logit_softcap = 5;
  Family& gemma3 = add("gemma3");  // head norms, two rotations, a scale of 1
  gemma3.layers = 6;
  gemma3.post_norms = gemma3.head_norms = true;
  gemma3.function = "gelu_tanh";
  gemma3.window = 16;
  gemma3.global_every = 3;
  gemma3.kv_heads = 1;
  gemma3.scale = 1;
  Family& phi = add("phi");  // parallel block, part of each head rotated, biases
  phi.layer_norm = phi.parallel = phi.bias = true;
  phi.gated = false;
  phi.function = "gelu_tanh";
  phi.rotary_dim = 8;
  phi.kv_heads = 4;
  Family& gpt2 = add("gpt2");  // learned positions instead of a rotation
  gpt2.layer_norm = gpt2.bias = gpt2.learned_positions = true;
  gpt2.gated = false;
  gpt2.function = "gelu";
  gpt2.rotary_dim = 0;
  gpt2.kv_heads = 4;
  Family& qwen3 = add("qwen3");
  qwen3.head_norms = true;
  qwen3.rope_table = true;
  qwen3.head_dim = 24;
  qwen3.rotary_dim = 24;
  Family& glm = add("glm");  // interleaved pairs, an activation without a gate
  glm.rotary_dim = 12;
  glm.interleaved = true;
  glm.bias = true;
  glm.gated = false;
  glm.function = "relu";
  glm.window = 30;
  Family& scaled = add("scaled");  // a separate scalar for each layer, squared ReLU
  scaled.layers = 3;
  scaled.layer_scale = 0.75;
  scaled.gated = false;
  scaled.function = "relu";
  scaled.power = 2;
  Family& unfused = add("unfused");  // loop nests inside rolled layers
  unfused.layers = 3;
  unfused.unfused = true;
  return all;
}

}  // namespace llmc::tests
