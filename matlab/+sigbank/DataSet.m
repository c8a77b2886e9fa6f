classdef DataSet < handle
  % DataSet  A JBOF data set, read-only: a folder of items, each with metadata and arrays.
  %
  %   ds = sigbank.DataSet('recordings');
  %   ds.metadata                         % the data set's metadata, a struct
  %   items = ds.allItems();              % a cell array of sigbank.Item
  %   found = ds.findItems('speaker', 'ann', 'take', {1, 2});
  %   [x, meta] = found{1}.getArray('signal');
  %
  % Metadata are what jsondecode makes of the JSON: keys that are no names of MATLAB's are changed by
  % matlab.lang.makeValidName, null is [], lists of numbers are columns. Works in MATLAB and GNU Octave (7 and newer).

  properties (SetAccess = private)
    directory  % where it is
    name       % the folder's name
    metadata   % its metadata, without the template of item names
    itemformat % the template of item names, or []
  end

  methods
    function self = DataSet(directory)
      % Opens the data set in a folder. sigbank:notFound where there is none.
      document = fullfile(directory, '_metadata.json');
      if ~exist(document, 'file')
        error('sigbank:notFound', '%s: there is no JBOF data set here: it would have a file _metadata.json', directory);
      end
      while numel(directory) > 1 && any(directory(end) == '/\')
        directory(end) = [];
      end
      self.directory = directory;
      parts = regexp(directory, '[^/\\]+', 'match');
      self.name = parts{end};
      self.metadata = sigbank.readJSON(document);
      self.itemformat = [];
      % jsondecode puts an x before what begins with an underscore.
      for key = {'x_itemformat', '_itemformat'}
        if isfield(self.metadata, key{1})
          self.itemformat = self.metadata.(key{1});
          self.metadata = rmfield(self.metadata, key{1});
        end
      end
    end

    function items = allItems(self)
      % All items, sorted by name, as a cell array. Folders that are hidden or have no metadata are none.
      entries = dir(self.directory);
      names = sort({entries([entries.isdir]).name});
      names = names(cellfun(@(n) self.hasItem(n), names));
      items = cellfun(@(n) sigbank.Item(fullfile(self.directory, n)), names, 'UniformOutput', false);
    end

    function yes = hasItem(self, name)
      % Whether there is an item of this name.
      yes = sigbank.isName(name) && exist(fullfile(self.directory, name, '_metadata.json'), 'file') == 2;
    end

    function item = getItem(self, name)
      % The item of this name; sigbank:notFound where there is none.
      if ~self.hasItem(name)
        error('sigbank:notFound', '%s: there is no item ''%s''', self.directory, name);
      end
      item = sigbank.Item(fullfile(self.directory, name));
    end

    function items = findItems(self, varargin)
      % Items whose metadata match: findItems(key, value, ...). A cell array as value means any of its elements; every key must match,
      % and one that an item has not does not. A vector is equal to a list of the same numbers, row or column; a list of one element is asked for
      % as a cell in a cell: {{1}} for [1], {{[1 2]}} for [[1, 2]].
      if mod(numel(varargin), 2) ~= 0 || ~iscellstr(varargin(1:2:end))
        error('sigbank:invalid', 'findItems expects pairs of a key and a value, such as findItems(''speaker'', ''ann'')');
      end
      items = self.allItems();
      keep = cellfun(@(item) matches(item, varargin), items);
      items = items(keep);
    end

    function item = findOneItem(self, varargin)
      % The first item that findItems finds, or [].
      items = self.findItems(varargin{:});
      item = [];
      if ~isempty(items)
        item = items{1};
      end
    end
  end
end

function yes = matches(item, query)
  yes = true;
  lists = {};
  for k = 1:2:numel(query)
    key = matlab.lang.makeValidName(query{k});
    wanted = query{k + 1};
    if ~iscell(wanted)
      wanted = {wanted};
    end
    yes = isfield(item.metadata, key);
    if yes
      found = item.metadata.(key);
      % jsondecode makes the same of a list of one element as of that element.
      single = ~iscell(found) && ~ischar(found) && size(found, 1) == 1;
      if single && isempty(lists)
        lists = {sigbank.lists(item.document)};
      end
      single = single && any(strcmp(key, lists{1}));
      yes = any(cellfun(@(w) same(found, w, single), wanted));
    end
    if ~yes
      return
    end
  end
end

function yes = same(found, wanted, single)
  % A text equals a text only: isequal('a', 97) is true. Lists of JSON are columns.
  if single
    yes = iscell(wanted) && numel(wanted) == 1 && same(found, wanted{1}, false);
    return
  end
  if isvector(found) && isvector(wanted) && ~ischar(found)
    found = found(:);
    wanted = wanted(:);
  end
  yes = ischar(found) == ischar(wanted) && isequal(found, wanted);
end
