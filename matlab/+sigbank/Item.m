classdef Item < handle
  % Item  An item of a JBOF data set, read-only: metadata, and arrays by name. See sigbank.DataSet.

  properties (SetAccess = private)
    directory % where it is
    name      % its folder's name
    metadata  % its metadata, a struct
  end

  properties (SetAccess = private, Hidden)
    document  % the JSON text of its metadata
  end

  methods
    function self = Item(directory)
      self.directory = directory;
      parts = regexp(directory, '[^/\\]+', 'match');
      self.name = parts{end};
      [self.metadata, self.document] = sigbank.readJSON(fullfile(directory, '_metadata.json'));
    end

    function yes = hasArray(self, name)
      % Whether there is an array of this name.
      yes = sigbank.isName(name) && ~strcmp(name, '_metadata') && exist(fullfile(self.directory, [name '.json']), 'file') == 2;
    end

    function [data, metadata] = getArray(self, name)
      % The array of this name, and its metadata (with samplerate for audio). Audio is double in [-1, 1), frames in rows and channels
      % in columns; a vector is a column. A damaged audio file is not always told of by audioread: sigbank check does. sigbank:notFound where there is none, or its file is gone.
      if ~self.hasArray(name)
        error('sigbank:notFound', '%s: there is no array ''%s''', self.directory, name);
      end
      metadata = sigbank.readJSON(fullfile(self.directory, [name '.json']));
      file = '';
      for key = {'x_filename', '_filename'}
        if isfield(metadata, key{1})
          file = metadata.(key{1});
          metadata = rmfield(metadata, key{1});
        end
      end
      kept = struct();
      for key = {'x_sigbank', '_sigbank'} % What the file's format cannot hold.
        if isfield(metadata, key{1})
          kept = metadata.(key{1});
          metadata = rmfield(metadata, key{1});
        end
      end
      % Old data name a longer path, of which only the last part counts.
      parts = regexp(file, '[^/\\]+', 'match');
      if isempty(parts) || any(strcmp(parts{end}, {'.', '..'}))
        error('sigbank:corrupt', '%s: the document of the array ''%s'' names no file', self.directory, name);
      end
      path = fullfile(self.directory, parts{end});
      if exist(path, 'file') ~= 2
        error('sigbank:notFound', '%s: the file of the array ''%s'' is gone', path, name);
      end
      data = restored(sigbank.readArray(path, name), kept, path);
    end

    function names = arrayNames(self)
      % The names of the arrays, sorted, as a cell array.
      entries = dir(fullfile(self.directory, '*.json'));
      names = sort(regexprep({entries.name}, '\.json$', ''));
      names = names(cellfun(@(n) self.hasArray(n), names));
    end

    function arrays = allArrays(self)
      % All arrays: a cell array with rows {name, data, metadata}, sorted by name. One that cannot be read is left out, with the warning
      % sigbank:skipped; getArray gives its error.
      names = self.arrayNames();
      arrays = cell(0, 3);
      for k = 1:numel(names)
        try
          [data, metadata] = self.getArray(names{k});
          arrays(end + 1, :) = {names{k}, data, metadata};
        catch e
          warning('sigbank:skipped', 'the array ''%s'' is left out: %s', names{k}, e.message);
        end
      end
    end
  end
end

function data = restored(data, kept, path)
  % The shape and class of an array that was added: a vector of n is n x 1, as of every other format.
  if isfield(kept, 'shape')
    shape = [reshape(kept.shape, 1, []), 1];
    shape = [shape, ones(1, 2 - numel(shape))];
    if prod(shape) ~= numel(data)
      error('sigbank:corrupt', '%s: its document says that there are %d elements, but the file has %d', path, prod(shape), numel(data));
    end
    data = reshape(data, shape);
  end
  if isfield(kept, 'dtype') && any(strcmp(kept.dtype, {'|b1', 'bool'}))
    data = logical(data);
  end
end
