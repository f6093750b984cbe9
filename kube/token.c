/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/file.h"

struct gt_kube_token {
    char *path;
    char *value;
    uint64_t read_at;
};

void gt_kube_token_free(struct gt_kube_token *token)
{
    if (!token)
        return;
    free(token->path);
    free(token->value);
    free(token);
}

static size_t parts_of(const char *token)
{
    size_t parts = 1;
    for (; *token; token++)
        parts += *token == '.';
    return parts;
}

bool gt_kube_token_is_whole(const char *text, const char *old)
{
    if (!*text)
        return false;
    for (const char *c = text; *c; c++)
        if (*c <= ' ' || *c == 0x7f) /* also every byte above 0x7f, where char is signed */
            return false;
    if (!old)
        return true;
    size_t parts = parts_of(old);
    if (parts != 3)
        return true;
    if (parts_of(text) != parts)
        return false;
    /* Two tokens with one header are signed with one key: their signatures are of one length. */
    size_t header = strcspn(old, ".");
    if (strcspn(text, ".") != header || strncmp(text, old, header) != 0)
        return true;
    return strlen(strrchr(text, '.')) == strlen(strrchr(old, '.'));
}

static int read_token(const char *path, const char *old, char **ret, struct gt_err **err)
{
    gt_auto_free char *text = NULL;
    size_t len;
    GT_TRY_WRAP(gt_file_read(AT_FDCWD, path, GT_KUBE_TOKEN_MAX, &text, &len, err), err, "token");
    while (len && strchr(" \t\r\n", text[len - 1]))
        text[--len] = '\0';
    if (strlen(text) != len || !gt_kube_token_is_whole(text, old))
        return gt_fail(err, EINVAL, "token: %s: empty, or not a token", path);
    *ret = gt_steal(text);
    return 0;
}

int gt_kube_token_new(const char *path, uint64_t now_ms, struct gt_kube_token **ret, struct gt_err **err)
{
    gt_auto_kube_token struct gt_kube_token *token = calloc(1, sizeof(*token));
    if (!token || !(token->path = strdup(path)))
        return gt_fail_sys(err, ENOMEM, "token");
    GT_TRY(read_token(path, NULL, &token->value, err));
    token->read_at = now_ms;
    *ret = gt_steal(token);
    return 0;
}

bool gt_kube_token_refresh(struct gt_kube_token *token, uint64_t now_ms)
{
    token->read_at = now_ms;
    char *value = NULL;
    if (read_token(token->path, token->value, &value, NULL) < 0)
        return false;
    bool changed = strcmp(value, token->value) != 0;
    free(token->value);
    token->value = value;
    return changed;
}

const char *gt_kube_token_get(struct gt_kube_token *token, uint64_t now_ms)
{
    if (now_ms - token->read_at >= GT_KUBE_TOKEN_INTERVAL_MS)
        gt_kube_token_refresh(token, now_ms);
    return token->value;
}
