"""ridgeformer: attention as kernel regression."""
