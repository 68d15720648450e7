/*
 * Embeddings in place of token ids: rows that another model has computed, such as the rows of an
 * image, become tokens of a prompt. C99 or C++; NAME.h of a model that takes them includes this
 * file.
 *
 *     llmc_prefill(session, before, before_count, NULL);
 *     llmc_append_embeddings(session, rows, row_count, NULL);   // float[row_count][width]
 *     llmc_prefill(session, after, after_count, NULL);
 *
 * The rules of llmc.h apply.
 */
#ifndef LLMC_EMBEDDINGS_H
#define LLMC_EMBEDDINGS_H

#include "llmc/llmc.h"

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* Number of elements of a row; 0: the model takes no embeddings. */
size_t llmc_embedding_width(const llmc_session* session);

/* Appends `n` rows, float[n][llmc_embedding_width], as llmc_prefill appends tokens: with the same
 * positions, chunks, cancelling, errors and bits. A row replaces the one that the model looks up in
 * its embedding table (docs/inputs.md says where it enters). The table's row of a token gives the
 * same bits as the token. The rows are not kept after the call.
 *
 * The position of a row has the id -1: llmc_tokens returns it, penalties ignore it, a repetition of
 * DRY ends at it, and in the text of a grammar sampling returns LLMC_ERROR_GRAMMAR. Forks, rewinds
 * and saved states treat rows as tokens; saved states with equal tokens and different rows differ
 * in their cache. A row cannot be run again, so these calls return LLMC_ERROR_EMBEDDINGS and change
 * nothing:
 *  - a slide, including an automatic one, with rows after the dropped tokens
 *  - of a model with recurrent states: a rewind, or a slide, that keeps rows
 * Tokens after rows in such a model are cancellable only before their first chunk.
 *
 * LLMC_ERROR_EMBEDDINGS: the model takes no embeddings. LLMC_ERROR_NOT_FINITE: an element of a row
 * is NaN or infinite. */
llmc_status llmc_append_embeddings(llmc_session* session, const float* rows, size_t n,
                                   size_t* done);

/* Number of axes on which tokens have positions; 0: a token has only its place in the sequence.
 * Models with multimodal RoPE, such as Qwen2-VL, have 3: time, height and width. */
uint32_t llmc_position_axes(const llmc_session* session);

/* Appends rows like llmc_append_embeddings, but with the given positions,
 * int32_t[n][llmc_position_axes]. They are relative: 0 is the position `next` that a token of text
 * would have here, which is llmc_position until such rows are appended. The text after the rows
 * continues after the largest of them. For example, the row in line y and column x of an image has
 * the positions 0, y, x; how frames of a video are counted differs between models. All rows of an
 * image must be appended in one call, because the next call counts from a new position.
 *
 * Positions are only for rotations: masks, windows, llmc_position and the context's size count
 * tokens. Tokens of text, and rows of llmc_append_embeddings, have equal positions on all axes.
 *
 * LLMC_ERROR_EMBEDDINGS: the model has no such axes, or takes no embeddings. LLMC_ERROR_POSITION: a
 * position is negative, or next + position + NAME_CTX is larger than 2^22. */
llmc_status llmc_append_embeddings_at(llmc_session* session, const float* rows,
                                      const int32_t* positions, size_t n, size_t* done);

/* Models with a media encoder (images or sounds): computes the rows of images or sounds for
 * llmc_append_embeddings. Sets *n (`n` may be NULL) to their number. NAME_encode_image in NAME.h
 * (sounds: NAME_encode_audio) is this function with typed parameters. `inputs`:
 * [NAME_IMAGE_INPUTS] tensors, row-major without padding; `dims`: the sizes of the open dims, in
 * the order of NAME_IMAGE_DIM_…; NULL: their upper bounds. (Sounds: NAME_AUDIO_….) `rows` has room
 * for llmc_image_rows rows and overlaps no input.
 *
 * Uses the session's memory and threads. Sequences do not change, but llmc_logits_at has no rows
 * until the next forward pass.
 *
 * LLMC_ERROR_EMBEDDINGS: the model has no media encoder. LLMC_ERROR_ARGUMENT: an input is NULL, a
 * size is out of range, or an index that the encoder computes is outside its table; `rows` may have
 * changed. */
llmc_status llmc_encode_image(llmc_session* session, const void* const* inputs, const int64_t* dims,
                              float* rows, size_t* n);

/* Maximum number of rows that a call of llmc_encode_image computes; 0: the model has no media
 * encoder. */
size_t llmc_image_rows(const llmc_session* session);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif /* LLMC_EMBEDDINGS_H */
