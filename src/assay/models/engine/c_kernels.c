/* C kernels of the engine for float32 on a CPU; each makes one pass over memory where torch makes several.

   Compiled on first use by c_kernels.py, which documents the arguments of each function. Sums use all vector lanes of the
   machine; nothing relies on finite numbers, so NaN stays NaN. */

#include <math.h>
#include <omp.h>
#include <stdint.h>
#include <stdlib.h>

#ifdef __AVX512F__
#define LANES 16
#define WIDE 4 /* vectors summed in parallel */
#else
#define LANES 8
#define WIDE 2
#endif
#define ROWS 4 /* rows processed in parallel */

typedef float vec __attribute__((vector_size(LANES * 4), aligned(4)));
typedef int32_t whole __attribute__((vector_size(LANES * 4), aligned(4)));

static inline vec load(const float *from) { return *(const vec *)from; }
static inline void store(float *to, vec numbers) { *(vec *)to = numbers; }
static inline vec all(float number) { return (vec){0} + number; }
static inline vec choose(whole where, vec yes, vec no) { return (vec)((where & (whole)yes) | (~where & (whole)no)); }
static inline int up_to(int count, int step) { return (count + step - 1) / step * step; }
/* Row stride: an odd number of vectors, so that rows do not map to the same cache sets. */
static inline int step_of(int count) { return (up_to(count, LANES) / LANES | 1) * LANES; }

/* exp by Cephes' polynomial, accurate to about 1 ulp; clamped to exp(-87) and exp(88). */
static inline vec exp_of(vec x)
{
    x = choose(x < -87.0f, all(-87.0f), choose(x > 88.0f, all(88.0f), x));
    vec n = (x * 1.44269504f + 12582912.0f) - 12582912.0f; /* rounds to an integer */
    vec r = x - n * 0.693359375f + n * 2.12194440e-4f;     /* log 2 in two parts */
    vec p = all(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    whole exponent = (__builtin_convertvector(n, whole) + 127) << 23;
    return p * (vec)exponent;
}

static inline float sum_of(vec numbers)
{
    float sum = 0;
    for (int i = 0; i < LANES; i++)
        sum += numbers[i];
    return sum;
}

static inline float largest_of(vec numbers)
{
    float largest = numbers[0];
    for (int i = 1; i < LANES; i++)
        largest = numbers[i] > largest ? numbers[i] : largest;
    return largest;
}

/* gate = silu(gate) * up, in place. */
void gate_up(float *gate, const float *up, int64_t count)
{
    int64_t full = count / LANES;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < full; i++) {
        vec x = load(gate + i * LANES);
        store(gate + i * LANES, x / (1.0f + exp_of(-x)) * load(up + i * LANES));
    }
    for (int64_t i = full * LANES; i < count; i++)
        gate[i] = gate[i] / (1.0f + expf(-gate[i])) * up[i];
}

/* RMS norm of each row, times the weights. */
void norm(const float *given, const float *weight, float *to, int64_t rows, int64_t width, float small)
{
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        const float *from = given + r * width;
        vec sum[4] = {0};
        float rest = 0;
        int64_t i = 0;
        for (; i + 4 * LANES <= width; i += 4 * LANES)
            for (int w = 0; w < 4; w++)
                sum[w] += load(from + i + w * LANES) * load(from + i + w * LANES);
        for (; i < width; i++)
            rest += from[i] * from[i];
        float scale = 1.0f / sqrtf((sum_of((sum[0] + sum[1]) + (sum[2] + sum[3])) + rest) / width + small);
        for (i = 0; i < width; i++)
            to[r * width + i] = from[i] * scale * weight[i];
    }
}

/* A tensor strided by row and head; contiguous within a head. */
typedef struct {
    const float *data;
    int64_t row, head;
} lines;

/* Rotary position embedding: rotates pairs half a head apart. Same memory layout as the input. */
void rotate(lines given, const float *cosines, const float *sines, float *to, int64_t rows, int64_t heads, int64_t width)
{
    int64_t half = width / 2;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; r++)
        for (int64_t h = 0; h < heads; h++) {
            int64_t at = r * given.row + h * given.head;
            const float *low = given.data + at, *high = low + half;
            const float *cosine = cosines + r * width, *sine = sines + r * width;
            for (int64_t i = 0; i < half; i++) {
                to[at + i] = low[i] * cosine[i] - high[i] * sine[i];
                to[at + half + i] = high[i] * cosine[half + i] + low[i] * sine[half + i];
            }
        }
}

/* Row maxima, and sums of exp(x - shift), where shift is the maximum, or 0 if it is infinite. */
void exp_sums(const float *logits, int64_t rows, int64_t width, float *largest, double *sums)
{
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        const float *line = logits + r * width;
        int64_t full = width / LANES * LANES, i = 0;
        vec tops = all(-INFINITY);
        for (; i < full; i += LANES)
            tops = choose(load(line + i) > tops, load(line + i), tops);
        float top = largest_of(tops);
        for (; i < width; i++)
            top = line[i] > top ? line[i] : top;
        float shift = isinf(top) ? 0.0f : top;
        double total = top == INFINITY ? INFINITY : 0.0;
        for (i = 0; i < full;) {
            vec sum = {0};
            for (int n = 0; n < 16 && i < full; n++, i += LANES) {
                vec x = load(line + i) - shift;
                sum += choose(x < -87.0f, (vec){0}, exp_of(x));
            }
            total += sum_of(sum);
        }
        for (; i < width; i++)
            total += expf(line[i] - shift);
        largest[r] = top;
        sums[r] = total;
    }
}

/* Tiles: some rows of a pack each, and the keys that they attend to. */
typedef struct {
    int32_t count, most_keys;
    const int32_t *starts, *rows;     /* first row and number of rows of each tile */
    const int32_t *keys, *keys_at;    /* keys of all tiles, and start offsets; one more at the end */
    const uint8_t *allowed;           /* for each tile, rows x keys: whether the row attends to the key */
    const int64_t *allowed_at;        /* start offsets */
} table;

typedef struct {
    lines query, key, value, path_key, path_value;
    float *output;        /* rows, heads, width */
    float *weight;        /* heads, rows; or null */
    int64_t all_rows;     /* rows of the pack */
    int32_t heads, kv_heads;  /* query heads, key-value heads */
    int32_t width, length; /* head size, tokens on the path: keys from there on are rows of the pack */
    float scale;
} arguments;

/* Scratch memory of a thread for one tile and one key-value head. */
typedef struct {
    float *keys;          /* `width` rows of `step` values: the tile's keys, transposed */
    float *scores;        /* ROWS rows of `step` values */
    const float **values; /* one per key */
    int step;
} workspace;

static void fetch(const arguments *a, const int32_t *keys, int count, int head, workspace *d)
{
    for (int low = 0; low < count; low += LANES) {
        const float *from[LANES];
        for (int n = 0; n < LANES; n++) {
            int64_t at = keys[low + n < count ? low + n : low]; /* padding repeats a key, which no row attends to */
            int known = at < a->length;
            const lines *key = known ? &a->path_key : &a->key, *value = known ? &a->path_value : &a->value;
            at -= known ? 0 : a->length;
            from[n] = key->data + at * key->row + head * key->head;
            d->values[low + n] = value->data + at * value->row + head * value->head;
        }
        for (int i = 0; i < a->width; i++)
            for (int n = 0; n < LANES; n++)
                d->keys[(int64_t)i * d->step + low + n] = from[n][i];
    }
}

/* Scores of `ROWS` queries and the first `count` keys, a multiple of LANES. */
static void score(const float *const query[ROWS], int width, float scale, int count, workspace *d)
{
    int j = 0;
    for (; j + WIDE * LANES <= count; j += WIDE * LANES) {
        vec sum[ROWS][WIDE] = {0};
        for (int i = 0; i < width; i++)
            for (int r = 0; r < ROWS; r++)
                for (int w = 0; w < WIDE; w++)
                    sum[r][w] += query[r][i] * load(d->keys + (int64_t)i * d->step + j + w * LANES);
        for (int r = 0; r < ROWS; r++)
            for (int w = 0; w < WIDE; w++)
                store(d->scores + r * d->step + j + w * LANES, sum[r][w] * scale);
    }
    for (; j < count; j += LANES) {
        vec sum[ROWS] = {0};
        for (int i = 0; i < width; i++)
            for (int r = 0; r < ROWS; r++)
                sum[r] += query[r][i] * load(d->keys + (int64_t)i * d->step + j);
        for (int r = 0; r < ROWS; r++)
            store(d->scores + r * d->step + j, sum[r] * scale);
    }
}

/* Replaces scores by exp(score - largest), 0 where masked; returns their sum. */
static float exponentiate(float *scores, const uint8_t *allowed, int seen, int count, float *largest)
{
    for (int j = 0; j < seen; j++)
        scores[j] = allowed[j] ? scores[j] : -INFINITY;
    for (int j = seen; j < count; j++)
        scores[j] = -INFINITY;
    vec top = load(scores), sum = {0};
    for (int j = LANES; j < count; j += LANES)
        top = choose(load(scores + j) > top, load(scores + j), top);
    *largest = largest_of(top);
    for (int j = 0; j < count; j += LANES) {
        vec x = load(scores + j) - *largest;
        vec part = choose(x < -87.0f, (vec){0}, exp_of(x));
        store(scores + j, part);
        sum += part;
    }
    return sum_of(sum);
}

/* Weighted sum of the values, for `ROWS` rows. */
static void weighted_sum(const workspace *d, int seen, int width, const float total[ROWS], float *const to[ROWS])
{
    int i = 0;
    for (; i + WIDE * LANES <= width; i += WIDE * LANES) {
        vec sum[ROWS][WIDE] = {0};
        for (int j = 0; j < seen; j++)
            for (int r = 0; r < ROWS; r++)
                for (int w = 0; w < WIDE; w++)
                    sum[r][w] += d->scores[r * d->step + j] * load(d->values[j] + i + w * LANES);
        for (int r = 0; r < ROWS; r++)
            for (int w = 0; w < WIDE; w++)
                store(to[r] + i + w * LANES, sum[r][w] / total[r]);
    }
    for (; i + LANES <= width; i += LANES) {
        vec sum[ROWS] = {0};
        for (int j = 0; j < seen; j++)
            for (int r = 0; r < ROWS; r++)
                sum[r] += d->scores[r * d->step + j] * load(d->values[j] + i);
        for (int r = 0; r < ROWS; r++)
            store(to[r] + i, sum[r] / total[r]);
    }
    for (; i < width; i++)
        for (int r = 0; r < ROWS; r++) {
            float sum = 0;
            for (int j = 0; j < seen; j++)
                sum += d->scores[r * d->step + j] * d->values[j][i];
            to[r][i] = sum / total[r];
        }
}

/* Attention of one tile and one key-value head, a few rows at a time. */
static void attend_tile(const table *t, const arguments *a, int tile, int head, workspace *d)
{
    int count = t->keys_at[tile + 1] - t->keys_at[tile], rows = t->rows[tile], group = a->heads / a->kv_heads;
    const uint8_t *allowed = t->allowed + t->allowed_at[tile];
    d->step = step_of(count);
    fetch(a, t->keys + t->keys_at[tile], count, head, d);
    for (int low = 0; low < rows; low += ROWS) {
        int seen = 0, row[ROWS]; /* keys up to the last that any row attends to */
        for (int r = 0; r < ROWS; r++) {
            row[r] = low + r < rows ? low + r : rows - 1; /* padding repeats the last row */
            int end = count;
            while (end > seen && !allowed[(int64_t)row[r] * count + end - 1])
                end--;
            seen = end > seen ? end : seen;
        }
        for (int h = head * group; h < (head + 1) * group; h++) {
            const float *query[ROWS];
            float *to[ROWS], total[ROWS], largest;
            for (int r = 0; r < ROWS; r++) {
                int64_t at = t->starts[tile] + row[r];
                query[r] = a->query.data + at * a->query.row + h * a->query.head;
                to[r] = a->output + (at * a->heads + h) * a->width;
            }
            score(query, a->width, a->scale, up_to(seen, LANES), d);
            for (int r = 0; r < ROWS; r++) {
                total[r] = exponentiate(d->scores + r * d->step, allowed + (int64_t)row[r] * count, seen, up_to(seen, LANES), &largest);
                if (a->weight)
                    a->weight[h * a->all_rows + t->starts[tile] + row[r]] = largest + logf(total[r]);
            }
            weighted_sum(d, seen, a->width, total, to);
        }
    }
}

/* Attention of all tiles; returns 1 if out of memory. */
int32_t attend(const table *t, const arguments *a)
{
    int step = step_of(t->most_keys), failed = 0;
#pragma omp parallel reduction(| : failed)
    {
        workspace d = {malloc(sizeof(float) * step * a->width), malloc(sizeof(float) * step * ROWS),
                  malloc(sizeof(float *) * step), step};
        failed = !d.keys || !d.scores || !d.values;
#pragma omp for schedule(dynamic, 1)
        for (int job = 0; job < t->count * a->kv_heads; job++)
            if (!failed)
                attend_tile(t, a, job / a->kv_heads, job % a->kv_heads, &d);
        free(d.keys);
        free(d.scores);
        free(d.values);
    }
    return failed;
}
