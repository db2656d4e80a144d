"""What every other room stands on: records, errors, settings, random streams, files, layers,
communication.
"""
