const char *@NAME@_failure(int site) {
    static const char *const texts[] = {
@FAILURES@
    };
    return site > 0 && (size_t)site < sizeof texts / sizeof *texts ? texts[site] : texts[0];
}
